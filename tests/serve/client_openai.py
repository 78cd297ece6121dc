#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The openai package of PyPI, unchanged, against hone serve.

Usage: client_openai.py [PART OF A NAME]
"""
import asyncio
import json
import sys
from typing import Literal

import openai
import pydantic

from cases_chat import NO_END, say
from harness import Models, Server, eq, run_cases, wait_until

CASES = []


def case(function):
    CASES.append(function)
    return function


def extra(fields):
    """Fields of say() and OFF as the package takes them: what it does not know goes into extra_body."""
    known = {"max_tokens", "reasoning_effort"}
    return {**{k: v for k, v in fields.items() if k in known}, "extra_body": {k: v for k, v in fields.items() if k not in known}}


class World:
    def __init__(self, server):
        self.server = server
        self.base = f"{server.url}/v1"
        self.client = openai.OpenAI(base_url=self.base, api_key="none", max_retries=0)
        self.model = self.client.models.list().data[0].id

    def chat(self, content="Say hi", **fields):
        messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
        return self.client.chat.completions.create(model=self.model, messages=messages, temperature=0,
                                                   **{"max_tokens": 16, **fields})


@case
def model_list(w):
    """models.list and models.retrieve."""
    eq(w.client.models.retrieve(w.model).id, w.model)
    try:
        w.client.models.retrieve("gpt-9")
        raise AssertionError("no error")
    except openai.NotFoundError as error:
        eq(error.code, "model_not_found")


@case
def chat_whole(w):
    """A chat completion with usage."""
    answer = w.chat(**extra(say("Hello there")))
    eq(answer.choices[0].message.content, "Hello there")
    eq(answer.choices[0].finish_reason, "stop")
    eq(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion", answer


@case
def chat_stream(w):
    """A stream and its usage at the end."""
    stream = w.chat(stream=True, stream_options={"include_usage": True}, **extra(say("Hello 😊 there")))
    chunks = list(stream)
    eq("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Hello 😊 there")
    eq(chunks[-1].choices, [])
    assert chunks[-1].usage.completion_tokens > 0


@case
def chat_stream_helper(w):
    """client.chat.completions.stream, which adds deltas up by itself."""
    with w.client.chat.completions.stream(model=w.model, messages=[{"role": "user", "content": "x"}], temperature=0,
                                          **extra(say("one two three"))) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "content.delta" in kinds and "content.done" in kinds, kinds
    eq(final.choices[0].message.content, "one two three")


TOOL = {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Tokyo", "Paris"]}}, "required": ["city"],
    "additionalProperties": False}}}


@case
def tools_and_the_next_turn(w):
    """A forced call, its result, the next answer; the message goes back as the package made it."""
    answer = w.chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_weather"}}, max_tokens=300,
                    parallel_tool_calls=False, reasoning_effort="none")
    eq(answer.choices[0].finish_reason, "tool_calls")
    call = answer.choices[0].message.tool_calls[0]
    eq(call.function.name, "get_weather")
    assert json.loads(call.function.arguments)["city"] in ("Tokyo", "Paris"), call
    history = [{"role": "user", "content": "Weather?"}, answer.choices[0].message,
               {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    eq(w.chat(history, tools=[TOOL], tool_choice="none", **extra(say("It is sunny"))).choices[0].message.content, "It is sunny")


@case
def tools_streamed(w):
    """The stream helper gives a parsed call."""
    with w.client.chat.completions.stream(model=w.model, messages=[{"role": "user", "content": "Weather?"}], tools=[TOOL],
                                          tool_choice="required", parallel_tool_calls=False, max_tokens=300, temperature=0,
                                          reasoning_effort="none") as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.parsed_arguments["city"] in ("Tokyo", "Paris"), message


class Report(pydantic.BaseModel):
    mood: Literal["good", "bad"]
    score: Literal[1, 2, 3]
    tags: list[Literal["x", "y"]] = pydantic.Field(max_length=2)


@case
def structured_output(w):
    """parse() with a pydantic model."""
    answer = w.client.chat.completions.parse(model=w.model, messages=[{"role": "user", "content": "Report"}], temperature=0,
                                             response_format=Report, max_tokens=300, reasoning_effort="none")
    parsed = answer.choices[0].message.parsed
    assert isinstance(parsed, Report), answer


@case
def json_schema_by_hand(w):
    """response_format as a dictionary."""
    schema = {"type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"], "additionalProperties": False}
    answer = w.chat(max_tokens=200, reasoning_effort="none",
                    response_format={"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": schema}})
    eq(json.loads(answer.choices[0].message.content), {"a": 7})


@case
def logprobs(w):
    """Typed log-probabilities."""
    content = w.chat(logprobs=True, top_logprobs=2, max_tokens=4, reasoning_effort="none").choices[0].logprobs.content
    eq([len(t.top_logprobs) for t in content], [2] * 4)


@case
def completions(w):
    """The older endpoint: text, token ids, several prompts, echo, stream."""
    ids = w.server.post("/tokenize", {"content": "Once upon"}).ok()["tokens"]
    one = w.client.completions.create(model=w.model, prompt=ids, max_tokens=4, temperature=0, echo=True, logprobs=1)
    assert one.choices[0].text.startswith("Once upon"), one
    eq(len(one.choices[0].logprobs.tokens), len(ids) + 4)
    many = w.client.completions.create(model=w.model, prompt=["a", "b"], max_tokens=2, temperature=0)
    eq([c.index for c in many.choices], [0, 1])
    parts = [c.choices[0].text for c in w.client.completions.create(model=w.model, prompt="a", max_tokens=4, temperature=0, stream=True)]
    assert "".join(parts), parts


@case
def responses(w):
    """The newer endpoint, whole and streamed; its output goes back as input."""
    answer = w.client.responses.create(model=w.model, input="Say hi", max_output_tokens=100, temperature=0, reasoning={"effort": "none"},
                                       extra_body={"text": {"format": {"type": "regex", "regex": "hello"}}})
    eq((answer.output_text, answer.status), ("hello", "completed"))
    again = w.client.responses.create(model=w.model, max_output_tokens=5, temperature=0, reasoning={"effort": "none"},
                                      input=[{"role": "user", "content": "Say hi"}, *answer.output, {"role": "user", "content": "more"}])
    eq(again.status, "incomplete")
    kinds, text = [], ""
    for event in w.client.responses.create(model=w.model, input="x", stream=True, max_output_tokens=6, temperature=0,
                                           reasoning={"effort": "none"}):
        kinds.append(event.type)
        text += event.delta if event.type == "response.output_text.delta" else ""
    eq((kinds[0], kinds[-1]), ("response.created", "response.incomplete"))
    assert text, kinds


@case
def errors(w):
    """Errors are the package's own classes, with param and code."""
    for fields, kind, param in (({"temperature": 9}, openai.BadRequestError, "temperature"),
                                ({"extra_body": {"nonsense": 1}}, openai.BadRequestError, "nonsense")):
        try:
            w.client.chat.completions.create(model=w.model, messages=[{"role": "user", "content": "x"}], max_tokens=1, **fields)
            raise AssertionError("no error")
        except kind as error:
            eq(error.param, param)


def ends_a_request(w, leave):
    """Checks that the server ends a request before its end, for what leave does to one. On a busy machine the answer may be
    complete before that, so it may try again."""
    for _ in range(10):
        before = w.server.cancelled()
        leave()
        wait_until(w.server.idle, 30, "idle after the client left")
        if w.server.cancelled() > before:
            return
    raise AssertionError("no request was cancelled")


@case
def async_cancel(w):
    """A cancelled task ends its request on the server, alone."""
    async def go():
        async with openai.AsyncOpenAI(base_url=w.base, api_key="none", max_retries=0) as client:
            def start(tokens, n):
                return client.chat.completions.create(
                    model=w.model, messages=[{"role": "user", "content": "x"}], temperature=0, max_tokens=tokens, n=n,
                    logit_bias=NO_END, reasoning_effort="none")

            long = asyncio.create_task(start(3000, 3))
            while not long.done() and await asyncio.to_thread(w.server.idle):
                await asyncio.sleep(0.005)
            short = asyncio.create_task(start(20, 1))
            await asyncio.sleep(0.02)
            long.cancel()
            eq((await short).usage.completion_tokens, 20)
            try:
                await long
            except asyncio.CancelledError:
                pass

    ends_a_request(w, lambda: asyncio.run(go()))


@case
def stream_left_early(w):
    """Leaving a stream ends its request."""
    def leave():
        stream = w.chat(stream=True, max_tokens=3000, logit_bias=NO_END, reasoning_effort="none")
        next(iter(stream))
        stream.close()

    ends_a_request(w, leave)


def main():
    print(f"openai {openai.__version__}")
    models = Models()
    with Server(models.minicpm5(), "--parallel", 4) as server:
        passed, failed = run_cases(CASES, World(server), only=sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
