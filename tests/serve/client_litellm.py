#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""litellm, unchanged, against hone serve."""
import asyncio
import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a price list from the network
import litellm  # noqa: E402

from cases_chat import WEATHER, say  # noqa: E402
from harness import Models, Server, eq, run_cases  # noqa: E402

litellm.telemetry = False
litellm.suppress_debug_info = True
CASES = []


def case(function):
    CASES.append(function)
    return function


def ask(w, content="Say hi", call=litellm.completion, **fields):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    said = {k: fields.pop(k) for k in ("response_format", "reasoning_effort") if k in fields}
    name = w.get("/v1/models").ok()["data"][0]["id"]
    return call(model=f"openai/{name}", api_base=f"{w.url}/v1", api_key="none", messages=messages, temperature=0, num_retries=0,
                extra_body=said, **{"max_tokens": 16, **fields})


@case
def chat(w):
    """A chat completion."""
    answer = ask(w, **say("Hello there"))
    eq((answer.choices[0].message.content, answer.choices[0].finish_reason), ("Hello there", "stop"))
    assert answer.usage.completion_tokens > 0


@case
def stream(w):
    """A stream, and what its chunks add up to."""
    chunks = list(ask(w, stream=True, stream_options={"include_usage": True}, **say("Hello 😊 there")))
    eq("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Hello 😊 there")
    eq(litellm.stream_chunk_builder(chunks).choices[0].message.content, "Hello 😊 there")


@case
def tools(w):
    """A call, streamed too, and the next turn."""
    fields = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 300, "reasoning_effort": "none"}
    message = ask(w, **fields).choices[0].message
    eq(json.loads(message.tool_calls[0].function.arguments), {"city": "Tokyo"})
    built = litellm.stream_chunk_builder(list(ask(w, stream=True, **fields))).choices[0]
    eq((built.finish_reason, json.loads(built.message.tool_calls[0].function.arguments)), ("tool_calls", {"city": "Tokyo"}))
    history = [{"role": "user", "content": "Weather?"}, message.model_dump(include={"role", "content", "tool_calls"}),
               {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}]
    eq(ask(w, history, tools=[WEATHER], tool_choice="none", **say("ok")).choices[0].message.content, "ok")


@case
def thinking(w):
    """reasoning_content reaches the caller."""
    name = w.get("/v1/models").ok()["data"][0]["id"]
    message = litellm.completion(model=f"openai/{name}", api_base=f"{w.url}/v1", api_key="none", temperature=0, max_tokens=100,
                                 num_retries=0, messages=[{"role": "user", "content": "Think"}],
                                 extra_body={"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget": 6,
                                             "response_format": {"type": "regex", "regex": "B"}}).choices[0].message
    eq(message.content, "B")
    assert message.reasoning_content, message


@case
def errors(w):
    """An unknown model and a full context are litellm's own errors."""
    try:
        litellm.completion(model="openai/gpt-9", api_base=f"{w.url}/v1", api_key="none", messages=[{"role": "user", "content": "x"}],
                           num_retries=0)
        raise AssertionError("no error")
    except litellm.NotFoundError:
        pass
    try:
        ask(w, "word " * 20000)
        raise AssertionError("no error")
    except (litellm.ContextWindowExceededError, litellm.BadRequestError) as error:
        assert "context" in str(error).lower(), error


@case
def asynchronous(w):
    """Four at once."""
    async def go():
        return await asyncio.gather(*(ask(w, call=litellm.acompletion, **say(f"text {i}")) for i in range(4)))

    eq([a.choices[0].message.content for a in asyncio.run(go())], [f"text {i}" for i in range(4)])


def main():
    from importlib.metadata import version

    print(f"litellm {version('litellm')}")
    models = Models()
    with Server(models.minicpm5(), "--parallel", 4) as server:
        passed, failed = run_cases(CASES, server)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
