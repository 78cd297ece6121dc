// SPDX-License-Identifier: Apache-2.0
// The openai package of npm, unchanged, against hone serve at HONE_URL.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

import { idle, say, TOOL, url } from "./util.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Say hi" }];
const base = { model, messages, temperature: 0 };

test("openai: a chat completion", async () => {
  const answer = await client.chat.completions.create({ ...base, ...say("Hello there") });
  assert.equal(answer.choices[0].message.content, "Hello there");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(answer.usage.completion_tokens > 0);
});

test("openai: a stream", async () => {
  let text = "", usage;
  const stream = await client.chat.completions.create(
    { ...base, ...say("Hello 😊 there"), stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "Hello 😊 there");
  assert.ok(usage.completion_tokens > 0);
});

test("openai: a tool call and the next turn", async () => {
  const answer = await client.chat.completions.create({
    ...base, tools: [TOOL], tool_choice: "required", parallel_tool_calls: false, max_tokens: 300, reasoning_effort: "none" });
  const [call] = answer.choices[0].message.tool_calls;
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Tokyo" });
  const next = await client.chat.completions.create({
    ...base, tools: [TOOL], tool_choice: "none", ...say("sunny"),
    messages: [...messages, answer.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }] });
  assert.equal(next.choices[0].message.content, "sunny");
});

test("openai: runTools calls a function and goes on", async () => {
  let asked = 0;
  const runner = client.chat.completions.runTools({
    ...base, max_tokens: 300, reasoning_effort: "none", tool_choice: { type: "function", function: { name: "get_weather" } },
    tools: [{ type: "function", function: { ...TOOL.function, parse: JSON.parse, function: ({ city }) => { asked += 1; return `sunny in ${city}`; } } }],
  }, { maxChatCompletions: 1 });
  await runner.done();
  assert.equal(asked, 1);
});

test("openai: structured output", async () => {
  const schema = { type: "object", properties: { a: { enum: [7] } }, required: ["a"], additionalProperties: false };
  const answer = await client.chat.completions.create({
    ...base, max_tokens: 200, reasoning_effort: "none",
    response_format: { type: "json_schema", json_schema: { name: "r", strict: true, schema } } });
  assert.deepEqual(JSON.parse(answer.choices[0].message.content), { a: 7 });
});

test("openai: responses", async () => {
  const answer = await client.responses.create({
    model, input: "Say hi", temperature: 0, max_output_tokens: 100, reasoning: { effort: "none" },
    text: { format: { type: "regex", regex: "hello" } } });
  assert.equal(answer.output_text, "hello");
});

test("openai: errors have a class, a param and a code", async () => {
  await assert.rejects(client.chat.completions.create({ ...base, temperature: 9 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  await assert.rejects(client.chat.completions.create({ ...base, model: "gpt-9" }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
});

test("openai: an aborted stream ends on the server", async () => {
  const stream = await client.chat.completions.create({ ...base, max_tokens: 3000, reasoning_effort: "none", stream: true,
    logit_bias: { 1: -100, 3: -100, 642: -100, 643: -100, 644: -100 } });
  for await (const _ of stream) break;
  stream.controller.abort();
  await idle();
});
