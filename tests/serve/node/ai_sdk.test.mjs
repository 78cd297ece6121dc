// SPDX-License-Identifier: Apache-2.0
// The AI SDK with its provider for OpenAI-compatible servers, unchanged, against hone serve at HONE_URL.
import assert from "node:assert/strict";
import test from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";
import { z } from "zod";

import { idle, say, TOOL, url } from "./util.mjs";

const { models } = await (await fetch(`${url}/props`)).json();
// extra: fields for the server that the SDK has no word for.
function model(extra = {}) {
  const provider = createOpenAICompatible({
    name: "hone", baseURL: `${url}/v1`, includeUsage: true, supportsStructuredOutputs: true,
    transformRequestBody: (body) => ({ ...body, ...extra }),
  });
  return provider(models[0].id);
}
const base = { temperature: 0, maxRetries: 0 };

test("ai: generateText", async () => {
  const { text, finishReason, usage } = await ai.generateText({ ...base, model: model(say("Hello there")), prompt: "Say hi" });
  assert.equal(text, "Hello there");
  assert.equal(finishReason, "stop");
  assert.ok(usage.outputTokens > 0);
});

test("ai: streamText", async () => {
  const result = ai.streamText({ ...base, model: model(say("Hello 😊 there")), prompt: "Say hi", onError() {} });
  let text = "";
  for await (const part of result.textStream) text += part;
  assert.equal(text, "Hello 😊 there");
  assert.ok((await result.usage).outputTokens > 0);
});

test("ai: a tool is called and its result is sent back", async () => {
  const asked = [];
  const tools = { get_weather: ai.tool({
    inputSchema: ai.jsonSchema(TOOL.function.parameters),
    execute: async ({ city }) => { asked.push(city); return "sunny"; },
  }) };
  let turn = 0;
  const provider = createOpenAICompatible({
    name: "hone", baseURL: `${url}/v1`,
    // The first turn must call, the second must answer: a model with random weights does neither by itself.
    transformRequestBody: ({ tool_choice, ...body }) => ({
      ...body, ...(turn++ === 0 ? { tool_choice: "required", max_tokens: 300, reasoning_effort: "none" } : { tool_choice: "none", ...say("It is sunny") }),
      parallel_tool_calls: false }),
  });
  const { text, steps } = await ai.generateText({
    ...base, model: provider(models[0].id), prompt: "Weather in Tokyo?", tools, stopWhen: ai.stepCountIs(2) });
  assert.deepEqual(asked, ["Tokyo"]);
  assert.equal(steps.length, 2);
  assert.equal(text, "It is sunny");
});

test("ai: a streamed tool call", async () => {
  const result = ai.streamText({
    ...base, model: model({ max_tokens: 300, reasoning_effort: "none", parallel_tool_calls: false }), prompt: "Weather?",
    toolChoice: "required", onError() {},
    tools: { get_weather: ai.tool({ inputSchema: ai.jsonSchema(TOOL.function.parameters) }) } });
  const calls = await result.toolCalls;
  assert.deepEqual(calls.map((c) => [c.toolName, c.input]), [["get_weather", { city: "Tokyo" }]]);
  assert.equal(await result.finishReason, "tool-calls");
});

test("ai: structured output", async () => {
  const { output } = await ai.generateText({
    ...base, model: model({ max_tokens: 300, reasoning_effort: "none" }), prompt: "Report",
    output: ai.Output.object({ schema: z.object({ mood: z.enum(["good", "bad"]), score: z.literal(3) }) }) });
  assert.ok(["good", "bad"].includes(output.mood));
  assert.equal(output.score, 3);
});

test("ai: thinking is reasoning", async () => {
  const { text, reasoningText } = await ai.generateText({
    ...base, prompt: "Think",
    model: model({ max_tokens: 200, chat_template_kwargs: { enable_thinking: true }, thinking_budget: 6,
      response_format: { type: "regex", regex: "B" } }) });
  assert.equal(text, "B");
  assert.ok(reasoningText.length > 0);
});

test("ai: errors say what the server said", async () => {
  await assert.rejects(ai.generateText({ ...base, model: model({ nonsense: 1 }), prompt: "x" }),
    (error) => error.statusCode === 400 && /nonsense/.test(error.message));
});

test("ai: an abort ends on the server", async () => {
  const abort = new AbortController();
  const result = ai.streamText({
    ...base, prompt: "x", abortSignal: abort.signal, onError() {},
    model: model({ max_tokens: 3000, reasoning_effort: "none", logit_bias: { 1: -100, 3: -100, 642: -100, 643: -100, 644: -100 } }) });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") abort.abort();
    if (part.type === "abort") break;
  }
  await idle();
});
