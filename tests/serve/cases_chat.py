# SPDX-License-Identifier: Apache-2.0
"""Cases S1 to S7 and S11 to S14 of the user reports: what requests may say and what answers look like.

The model has random weights behind MiniCPM5's template; texts that it would never say are forced by a regex.
"""
import json
import re

from harness import ABSENT, Summed, eq

CASES = []


def case(function):
    CASES.append(function)
    return function


ADD = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
    "additionalProperties": False}}}
# A call of it has one form only, so that the tests know it.
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather", "strict": True,
                                            "parameters": {"type": "object", "properties": {"city": {"enum": ["Tokyo"]}},
                                                           "required": ["city"], "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now"}}
OFF = {"reasoning_effort": "none"}
# Ids that end an answer: without them the answer is as long as max_tokens.
NO_END = {str(i): -100 for i in (1, 3, 642, 643, 644)}


def say(text):
    """Fields that make any model say text: nothing else matches the pattern."""
    pattern = re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", text)
    return {**OFF, "max_tokens": 400, "response_format": {"type": "regex", "regex": pattern}}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": schema}}


@case
def s0_says_what_a_regex_asks_for(w):
    """A regex forces the text, also streamed."""
    for text in ("hello", " a\n b ", "été 😊", "{x} (y) [z] <b>&amp; \\ | + * ? . ^ $"):
        answer = w.server.chat(**say(text)).ok()
        eq(answer["choices"][0]["message"]["content"], text)
        eq(answer["choices"][0]["finish_reason"], "stop")
        eq(Summed(w.server.chat_stream(**say(text))).content, text)


@case
def s1_assistant_messages_without_content(w):
    """content null, absent, "" or [] beside tool_calls."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 2, \"b\": 3}"}}
    prompts = set()
    for content in (None, ABSENT, "", []):
        assistant = {"role": "assistant", "tool_calls": [call]}
        if content is not ABSENT:
            assistant["content"] = content
        messages = [{"role": "user", "content": "2+3?"}, assistant,
                    {"role": "tool", "tool_call_id": "c1", "content": "5"}]
        answer = w.server.chat(messages, tools=[ADD]).ok()
        prompts.add(w.server.post("/apply-template", {"messages": messages, "tools": [ADD]}).ok()["prompt"])
        assert answer["usage"]["prompt_tokens"] > 0
    eq(len(prompts), 1, "all four are the same prompt")
    assert '<function name="add"><param name="a">2</param><param name="b">3</param></function>' in prompts.pop()


@case
def s1_the_servers_own_message_comes_back(w):
    """What the server sent is accepted as history, whole and streamed."""
    fields = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 400, **OFF}
    message = w.server.chat("Weather in Tokyo?", **fields).message()
    history = [{"role": "user", "content": "Weather in Tokyo?"}, message,
               {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}]
    w.server.chat(history, tools=[WEATHER]).ok()


@case
def s2_streamed_tool_calls(w):
    """First delta with id, type, name and empty arguments; later ones with index and arguments only; the whole equals the other form."""
    fields = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 400, **OFF}
    streamed = Summed(w.server.chat_stream("Weather?", **fields))
    whole = w.server.chat("Weather?", **fields).ok()["choices"][0]
    eq(streamed.finish, "tool_calls")
    eq(whole["finish_reason"], "tool_calls")
    eq(len(streamed.calls), 1)
    eq(streamed.calls[0]["name"], "get_weather")
    eq(json.loads(streamed.calls[0]["arguments"]), {"city": "Tokyo"})
    eq(streamed.calls[0]["arguments"], whole["message"]["tool_calls"][0]["function"]["arguments"])
    assert streamed.calls[0]["id"] != whole["message"]["tool_calls"][0]["id"], "ids are unique"


@case
def s2_parallel_calls_keep_their_order(w):
    """Calls in a row, forced by keeping the model from its end: one index and one id each, the same whole and streamed."""
    fields = {"tools": [NOW, WEATHER], "tool_choice": "required", "max_tokens": 300, "logit_bias": NO_END, **OFF}
    streamed = Summed(w.server.chat_stream(**fields))
    assert len(streamed.calls) > 1, streamed.calls
    eq(len({c["id"] for c in streamed.calls}), len(streamed.calls))
    message = w.server.chat(**fields).message()
    eq([(c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]],
       [(c["name"], c["arguments"]) for c in streamed.calls])
    for call in streamed.calls:
        eq(json.loads(call["arguments"]), {"now": {}, "get_weather": {"city": "Tokyo"}}[call["name"]])


def forced_call(w, name, **values):
    """Arguments of a call that can have these values only, the same whole and streamed; nothing of its XML is content."""
    properties = {key: {"enum": [value]} for key, value in values.items()}
    function = {"name": name, "strict": True, "parameters": {"type": "object", "properties": properties, "required": list(values),
                                                             "additionalProperties": False}}
    fields = {"tools": [{"type": "function", "function": function}], "tool_choice": "required", "parallel_tool_calls": False,
              "max_tokens": 400, **OFF}
    choice = w.server.chat(**fields).ok()["choices"][0]
    eq((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
    streamed = Summed(w.server.chat_stream(**fields))
    eq((streamed.finish, streamed.content), ("tool_calls", ""))
    call = choice["message"]["tool_calls"][0]["function"]
    eq((call["name"], call["arguments"]), (name, streamed.calls[0]["arguments"]))
    return json.loads(call["arguments"])


@case
def s3_minicpm5_calls(w):
    """XML of MiniCPM5 becomes calls: text, CDATA, entities, numbers, booleans, text that looks like a number, none at all."""
    for values in ({"city": "Tokyo"}, {"code": "if (a<b) {\n x&&y }"}, {"where": "R&D"}, {"days": 3, "id": "007", "on": True},
                   {"text": "\"quoted\" 'text' é 😊", "none": "null"}, {"list": [1, "a"], "map": {"k": [True, 1.5]}}, {}):
        eq(forced_call(w, "run", **values), values)


@case
def s3_what_is_no_call_stays_text(w):
    """With tool_choice none, and without tools, XML of calls is text, whole, with finish_reason stop."""
    for text in ('<function name="get_weather"><param name="city">Tokyo</param></function>',
                 'Use:\n```xml\n<function name="get_weather"><param name="city">Tokyo</param></function>\n```\n',
                 '<function name="get_weather"><param name="city">Tokyo</param>', 'a <fun b </function> c'):
        for fields in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
            choice = w.server.chat(**say(text), **fields).ok()["choices"][0]
            eq((choice["message"]["content"], choice["finish_reason"]), (text, "stop"))
            assert not choice["message"].get("tool_calls"), choice
            eq(Summed(w.server.chat_stream(**say(text), **fields)).content, text)


@case
def s3_thinking_holds_no_calls(w):
    """With thinking on and a forced call, the call comes after the thinking."""
    answer = w.server.chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=400,
                           chat_template_kwargs={"enable_thinking": True}, thinking_budget=5).ok()
    choice = answer["choices"][0]
    eq([c["function"]["name"] for c in choice["message"]["tool_calls"]], ["get_weather"])
    assert 0 < answer["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 8, answer["usage"]


@case
def s4_schemas_bind(w):
    """json_schema with and without the wrapper gives JSON of the schema."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 999}}, "required": ["a"],
              "additionalProperties": False}
    for form in (schema_format(schema), {"type": "json_schema", "schema": schema}, {"type": "json_object", "schema": schema}):
        answer = w.server.chat(response_format=form, max_tokens=200, **OFF).ok()["choices"][0]
        eq(answer["finish_reason"], "stop")
        value = json.loads(answer["message"]["content"])
        assert set(value) == {"a"} and isinstance(value["a"], int), value


@case
def s4_patterns_and_references_bind(w):
    """\\d in a pattern and $ref to $defs are enforced, not dropped."""
    year = schema_format({"type": "string", "pattern": "^\\d{4}$"})
    assert re.fullmatch(r'"\d{4}"', w.server.chat(response_format=year, max_tokens=100, **OFF).message()["content"].strip())
    refs = schema_format({"$defs": {"x": {"enum": ["yes"]}}, "type": "object", "properties": {"v": {"$ref": "#/$defs/x"}},
                          "required": ["v"], "additionalProperties": False})
    eq(json.loads(w.server.chat(response_format=refs, max_tokens=100, **OFF).message()["content"]), {"v": "yes"})


@case
def s4_wrong_formats_are_refused(w):
    """No schema, an unknown type, a wrong regex or pattern: 400, never free text."""
    w.server.chat(response_format={"type": "json_schema", "json_schema": {"name": "r"}}).error(400)
    w.server.chat(response_format={"type": "json_schema"}).error(400)
    w.server.chat(response_format={"type": "xml"}).error(400, "response_format.type")
    w.server.chat(response_format={"type": "regex", "regex": "("}, **OFF).error(400)
    for pattern in ("^hello\\!$", "(", "[z-a]"):
        answer = w.server.chat(response_format=schema_format({"type": "string", "pattern": pattern}), max_tokens=60, **OFF)
        if pattern == "^hello\\!$" and answer.status == 200:  # some readers take \! for !
            eq(json.loads(answer.message()["content"]), "hello!", pattern)
        else:
            answer.error(400)
    w.server.chat_stream(response_format={"type": "regex", "regex": "("}, **OFF).answer().error(400)


@case
def s4_json_cut_short_says_length(w):
    """json_object and max_tokens 5: finish_reason length, and the beginning of JSON."""
    answer = w.server.chat(response_format={"type": "json_object"}, max_tokens=5, **OFF).ok()["choices"][0]
    if answer["finish_reason"] == "stop":
        json.loads(answer["message"]["content"])
    else:
        eq(answer["finish_reason"], "length")
        assert answer["message"]["content"].lstrip().startswith("{"), answer


@case
def s4_formats_beside_tools(w):
    """With tools an answer matches the format, or is a call."""
    form = schema_format({"type": "object", "properties": {"v": {"enum": [1]}}, "required": ["v"], "additionalProperties": False})
    choice = w.server.chat(response_format=form, tools=[WEATHER], parallel_tool_calls=False, max_tokens=400, **OFF).ok()["choices"][0]
    if choice["finish_reason"] == "stop":
        eq(json.loads(choice["message"]["content"]), {"v": 1})
    else:
        eq(choice["finish_reason"], "tool_calls")
        eq(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), {"city": "Tokyo"})
    none = w.server.chat(response_format=form, tools=[WEATHER], tool_choice="none", max_tokens=400, **OFF).message()
    eq(json.loads(none["content"]), {"v": 1})


@case
def s5_both_names_of_the_token_limit(w):
    """max_tokens and max_completion_tokens are one; 0 is an answer; wrong values are refused by name."""
    eq(w.server.chat(max_tokens=3, **OFF).ok()["usage"]["completion_tokens"], 3)
    eq(w.server.chat(max_tokens=ABSENT, max_completion_tokens=3, **OFF).ok()["usage"]["completion_tokens"], 3)
    w.server.chat(max_tokens=3, max_completion_tokens=3).ok()
    w.server.chat(max_tokens=3, max_completion_tokens=4).error(400)
    zero = w.server.chat(max_tokens=0, **OFF).ok()
    eq((zero["choices"][0]["finish_reason"], zero["choices"][0]["message"]["content"]), ("length", ""))
    eq(zero["usage"]["completion_tokens"], 0)
    for wrong in (-1, 1.5, "16", True, [16], {}):
        w.server.chat(max_tokens=wrong).error(400, "max_tokens")
        w.server.chat(max_tokens=ABSENT, max_completion_tokens=wrong).error(400, "max_completion_tokens")
    w.server.chat(max_tokens=2.0, **OFF).ok()


@case
def s5_a_limit_beyond_the_context(w):
    """1e12 tokens: refused, or clamped to what the context holds."""
    answer = w.small().chat(max_tokens=1000000000000, **OFF)
    if answer.status != 200:
        answer.error(400, "max_tokens")
    else:
        assert answer.json["usage"]["total_tokens"] <= 257, answer.json["usage"]


@case
def s6_stop_strings(w):
    """Found across tokens, left out, the same streamed; text held back comes out at the end."""
    text = " L M N O P Q R"
    for stop, want in (("O P Q", " L M N "), (["O P Q"], " L M N "), (["TRE\nAAAA"], text), ([], text), (None, text),
                       (["zz", "yy", "xx", "ww", " R"], " L M N O P Q"), ("Q R\n\n", text), (["M N", " L"], "")):
        fields = {**say(text), "stop": stop}
        choice = w.server.chat(**fields).ok()["choices"][0]
        eq((choice["message"]["content"], choice["finish_reason"]), (want, "stop"), f"stop {stop!r}")
        streamed = Summed(w.server.chat_stream(**fields))
        eq((streamed.content, streamed.finish), (want, "stop"), f"streamed, stop {stop!r}")
    eq(w.server.chat(**say("UNO DUE TRE"), stop=["TRE\nAAAA"]).message()["content"], "UNO DUE TRE")
    eq(w.server.chat(**say("a😊b😀c"), stop=["😀"]).message()["content"], "a😊b")
    w.server.chat(**say(text), stop=[""]).error(400)
    w.server.chat(**say(text), stop="").error(400)
    w.server.chat(**say(text), stop=[1]).error(400)
    w.server.chat(**say(text), stop=["x"] * 17).error(400)


@case
def s6_stop_strings_leave_the_thinking_alone(w):
    """A stop string that the thinking has does not end the answer."""
    fields = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget": 12, "max_tokens": 100,
              "response_format": {"type": "regex", "regex": "done"}}
    plain = w.server.chat(**fields).message()
    assert len(plain["reasoning_content"]) > 2, plain
    letter = plain["reasoning_content"].strip()[1]
    if letter in "done":
        letter = plain["reasoning_content"].strip()[:3]
    again = w.server.chat(**fields, stop=[letter]).message()
    eq((again["reasoning_content"], again["content"]), (plain["reasoning_content"], plain["content"]))


@case
def s7_finish_reasons(w):
    """length for the limit and the context, stop for the end and stop strings, tool_calls for calls."""
    eq(w.server.chat(max_tokens=1, **OFF).ok()["choices"][0]["finish_reason"], "length")
    eq(w.server.chat(**say("end")).ok()["choices"][0]["finish_reason"], "stop")
    eq(w.server.chat(**say("a stop b"), stop="stop").ok()["choices"][0]["finish_reason"], "stop")
    full = w.small().chat(max_tokens=ABSENT, logit_bias=NO_END, **OFF).ok()
    eq(full["choices"][0]["finish_reason"], "length")
    assert full["usage"]["total_tokens"] in (256, 257), full["usage"]


@case
def s11_logprobs(w):
    """Each token with logprob at most 0, true bytes, and as many candidates as asked for, best first."""
    choice = w.server.chat(logprobs=True, max_tokens=8, **OFF).ok()["choices"][0]
    tokens = choice["logprobs"]["content"]
    eq(len(tokens), 8)
    for token in tokens:
        assert token["logprob"] <= 0 and token["top_logprobs"] == [] and isinstance(token["bytes"], list), token
    eq(bytes(b for t in tokens for b in t["bytes"]).decode("utf-8", "replace"), choice["message"]["content"])
    for token in w.server.chat(logprobs=True, top_logprobs=3, max_tokens=4, **OFF).ok()["choices"][0]["logprobs"]["content"]:
        top = [t["logprob"] for t in token["top_logprobs"]]
        assert len(top) == 3 and top == sorted(top, reverse=True), token
        eq(token["top_logprobs"][0]["token"], token["token"], "greedy takes the best")
    streamed = Summed(w.server.chat_stream(logprobs=True, max_tokens=8, **OFF))
    eq([t["token"] for t in streamed.logprobs], [t["token"] for t in tokens])


@case
def s11_logprobs_of_forced_text_and_characters(w):
    """An emoji over several tokens keeps its bytes; excluded tokens are numbers, never -Infinity; tools do not matter."""
    answer = w.server.chat(**say("a😊"), logprobs=True, top_logprobs=20).ok()["choices"][0]
    eq([b for t in answer["logprobs"]["content"] for b in t["bytes"]][-4:], [240, 159, 152, 138])
    w.server.chat(logprobs=True, top_logprobs=2, tools=[NOW], tool_choice="none", **OFF).ok()
    Summed(w.server.chat_stream(logprobs=True, top_logprobs=2, tools=[NOW], tool_choice="none", **OFF))
    for fields in ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 21}, {"logprobs": True, "top_logprobs": -1}):
        w.server.chat(**fields).error(400, "top_logprobs")


@case
def s12_content_parts(w):
    """Text parts are one text; images and other shapes are refused by their path."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    render = w.server.post("/apply-template", {"messages": [{"role": "user", "content": parts}]}).ok()["prompt"]
    assert "ab" in render, render
    w.server.chat([{"role": "user", "content": parts}]).ok()
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    error = w.server.chat([{"role": "user", "content": [{"type": "text", "text": "a"}, *image]}]).error(400)
    assert error["param"].startswith("messages[0].content[1]"), error
    for content in ([], {}, 5, True, [5], None):
        error = w.server.chat([{"role": "user", "content": content}]).error(400)
        assert error["param"].startswith("messages[0]"), error


@case
def s13_thinking_on_and_off(w):
    """Off means no thinking tokens; all spellings work; contradictions are refused."""
    prompt = {"messages": [{"role": "user", "content": "Hi"}]}
    on = w.server.post("/apply-template", {**prompt, "chat_template_kwargs": {"enable_thinking": True}}).ok()["prompt"]
    assert on.endswith("<think>\n"), on
    for fields in ({"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False},
                   {"thinking_budget": 0}):
        off = w.server.post("/apply-template", {**prompt, **fields}).ok()["prompt"]
        assert off.endswith("<think>\n\n</think>\n\n"), (fields, off)
        answer = w.server.chat(**fields).ok()
        eq(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 0, str(fields))
        assert not answer["choices"][0]["message"].get("reasoning_content"), answer
    assert w.server.chat(enable_thinking=False).ok()["warnings"], "the top-level spelling has a warning"
    for effort in ("low", "medium", "high"):
        w.server.chat(reasoning_effort=effort).ok()
    w.server.chat(reasoning_effort="none", chat_template_kwargs={"enable_thinking": True}).error(400)
    w.server.chat(thinking_budget=5, chat_template_kwargs={"enable_thinking": False}).error(400)
    for value in ("false", 0):
        w.server.chat(chat_template_kwargs={"enable_thinking": value}).error(400, "chat_template_kwargs.enable_thinking")


@case
def s13_models_without_thinking_refuse_it(w):
    """reasoning_effort and enable_thinking on a model without the channel: 400; none is fine."""
    w.silent().chat(reasoning_effort="none").ok()
    w.silent().chat(reasoning_effort="high").error(400, "reasoning_effort")
    w.silent().chat(chat_template_kwargs={"enable_thinking": True}).error(400)


@case
def s14_where_thinking_goes(w):
    """Opened by the prompt, closed at the budget: reasoning_content, then content; inline for those who ask."""
    fields = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget": 6, "max_tokens": 200,
              "response_format": {"type": "regex", "regex": "B"}}
    message = w.server.chat(**fields).message()
    assert message["reasoning_content"] and message["content"] == "B", message
    assert "think>" not in message["reasoning_content"], message
    streamed = Summed(w.server.chat_stream(**fields))
    eq((streamed.reasoning, streamed.content), (message["reasoning_content"], "B"))
    inline = w.server.chat(**fields, reasoning_format="none").message()
    assert inline["content"].startswith("<think>") and inline["content"].endswith("B"), inline
    assert "</think>" in inline["content"] and not inline.get("reasoning_content"), inline


@case
def s14_cut_inside_the_thinking(w):
    """max_tokens within the thinking: all of it is reasoning, content null, length."""
    bias = {str(i): -100 for i in (1, 3, 641, 642, 643, 644)}
    answer = w.server.chat(chat_template_kwargs={"enable_thinking": True}, max_tokens=8, logit_bias=bias).ok()
    choice = answer["choices"][0]
    eq((choice["finish_reason"], choice["message"]["content"]), ("length", None))
    assert choice["message"]["reasoning_content"], choice
    eq(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 8)


@case
def s14_marks_in_the_answer_are_text(w):
    """A literal </think> in the answer stays, whole and streamed; old thinking leaves the history as the template says."""
    text = "Write `</think>` to close it.\n```\n<think>x</think>\n```"
    eq(w.server.chat(**say(text)).message()["content"], text)
    streamed = Summed(w.server.chat_stream(**say(text)))
    eq((streamed.content, streamed.reasoning), (text, ""))
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "SECRET"},
               {"role": "user", "content": "more"}]
    assert "SECRET" not in w.server.post("/apply-template", {"messages": history}).ok()["prompt"]
