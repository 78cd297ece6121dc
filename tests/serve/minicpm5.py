#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MiniCPM5's real template through the server: prompts as jinja2 renders them, and a conversation with tools to its end."""
import json
import sys

from cases_chat import ADD, NOW, OFF, WEATHER, say
from harness import MINICPM5_TEMPLATE, ROOT, Models, Server, Summed, eq, run_cases

sys.path.insert(0, str(ROOT / "tools"))
import check_templates  # noqa: E402

CASES = []


def case(function):
    CASES.append(function)
    return function


def rendered(messages, **variables):
    """What jinja2 makes of it, set up as Transformers sets it up; arguments of calls decoded first, as the API says."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for call in message.get("tool_calls") or []:
            if isinstance(call["function"].get("arguments"), str):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        for key in [key for key, value in message.items() if value is None]:
            del message[key]
    context = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None,
               "documents": None, **variables}
    return check_templates.environment().from_string(MINICPM5_TEMPLATE.read_text()).render(**context)


def applied(w, messages, **fields):
    return w.post("/apply-template", {"messages": messages, **fields}).ok()["prompt"]


@case
def prompts_equal_jinja2(w):
    """Every conversation of the golden renders that the API can express, with and without tools and thinking."""
    golden = json.loads((ROOT / "tests/testdata/templates/minicpm5.json").read_text())
    compared = 0
    for name, context in golden["contexts"].items():
        body = {k: context[k] for k in ("messages", "tools", "add_generation_prompt") if k in context}
        if "enable_thinking" in context:
            body["chat_template_kwargs"] = {"enable_thinking": context["enable_thinking"]}
        answer = w.post("/apply-template", body)
        if answer.status == 400:  # roles or shapes that the API refuses; they are few and named
            assert answer.json["error"]["param"], (name, answer.body)
            continue
        want = rendered(context["messages"], **{k: v for k, v in context.items() if k not in ("messages", "bos_token")})
        eq(answer.ok()["prompt"], want, name)
        compared += 1
    assert compared >= len(golden["contexts"]) // 2, f"{compared} of {len(golden['contexts'])} compared"


@case
def a_conversation_with_tools(w):
    """Request with tools, calls, results, answer, next question: each prompt is jinja2's, each answer is read."""
    tools = [WEATHER, NOW]
    history = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "The time, and the weather in Tokyo & Paris?"}]
    eq(applied(w, history, tools=tools, **OFF), rendered(history, tools=tools, enable_thinking=False))
    message = {}
    for forced in (NOW, WEATHER):  # a model with random weights calls what it is told to
        fields = {"tools": tools, "tool_choice": {"type": "function", "function": {"name": forced["function"]["name"]}},
                  "parallel_tool_calls": False, "max_tokens": 300, **OFF}
        answer = w.chat(history, **fields).ok()["choices"][0]
        eq(answer["finish_reason"], "tool_calls")
        streamed = Summed(w.chat_stream(history, **fields))
        eq([c["arguments"] for c in streamed.calls], [c["function"]["arguments"] for c in answer["message"]["tool_calls"]])
        message = {**answer["message"], "tool_calls": [*message.get("tool_calls", []), *answer["message"]["tool_calls"]]}
    eq([(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message["tool_calls"]],
       [("now", {}), ("get_weather", {"city": "Tokyo"})])
    history.append(message)
    for call, result in zip(message["tool_calls"], ("noon", "sunny <b>20°</b>\n& dry")):
        history.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    prompt = applied(w, history, tools=tools, **OFF)
    eq(prompt, rendered(history, tools=tools, enable_thinking=False))
    assert "<tool_response>\nsunny <b>20°</b>\n& dry\n</tool_response>" in prompt, prompt
    answer = w.chat(history, tools=tools, tool_choice="none", **say("Noon, and it is sunny.")).message()
    eq(answer["content"], "Noon, and it is sunny.")
    history += [answer, {"role": "user", "content": "Thanks"}]
    eq(applied(w, history, tools=tools), rendered(history, tools=tools))


@case
def arguments_that_need_care(w):
    """CDATA, quotes, non-ASCII and numbers survive the way out and back into the next prompt."""
    values = {"code": 'if (a<b) {\n  say("é & 😊")\n}', "count": 3}
    run = {"type": "function", "function": {"name": "run", "strict": True, "parameters": {
        "type": "object", "properties": {k: {"enum": [v]} for k, v in values.items()}, "required": list(values),
        "additionalProperties": False}}}
    message = w.chat("go", tools=[run], tool_choice="required", parallel_tool_calls=False, max_tokens=400, **OFF).message()
    eq(json.loads(message["tool_calls"][0]["function"]["arguments"]), values)
    history = [{"role": "user", "content": "go"}, message,
               {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}]
    prompt = applied(w, history, tools=[run])
    eq(prompt, rendered(history, tools=[run]))
    assert '<param name="code"><![CDATA[if (a<b) {\n  say("é & 😊")\n}]]></param><param name="count">3</param>' in prompt, prompt


@case
def forced_calls_of_every_choice(w):
    """required and a named tool give a call with valid arguments, none gives text; with thinking the call comes after it."""
    for choice, names in (("required", {"add", "get_weather"}), ({"type": "function", "function": {"name": "add"}}, {"add"})):
        for thinking in ({"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget": 4}):
            answer = w.chat("go", tools=[ADD, WEATHER], tool_choice=choice, parallel_tool_calls=False, max_tokens=600,
                            logit_bias={}, **thinking).ok()["choices"][0]
            if answer["finish_reason"] == "length":  # an integer without an end is the weights' choice
                continue
            eq(answer["finish_reason"], "tool_calls", str(choice))
            call = answer["message"]["tool_calls"][0]["function"]
            assert call["name"] in names, call
            assert isinstance(json.loads(call["arguments"]), dict), call
    answer = w.chat("go", tools=[ADD], tool_choice="none", max_tokens=40, **OFF).ok()["choices"][0]
    assert not answer["message"].get("tool_calls"), answer


@case
def thinking_before_text_and_calls(w):
    """The template opens the thinking: it goes to reasoning_content, and the next prompt has it where the template wants it."""
    fields = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget": 5, "max_tokens": 300, "tools": [WEATHER],
              "tool_choice": "required", "parallel_tool_calls": False}
    message = w.chat("Weather?", **fields).message()
    assert message["reasoning_content"] and message["tool_calls"], message
    history = [{"role": "user", "content": "Weather?"}, message,
               {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}]
    eq(applied(w, history, tools=[WEATHER]), rendered(history, tools=[WEATHER]))


def main():
    models = Models()
    with Server(models.minicpm5(), "--parallel", 2) as server:
        passed, failed = run_cases(CASES, server)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
