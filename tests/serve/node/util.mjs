// SPDX-License-Identifier: Apache-2.0
// What the tests of npm's clients share. HONE_URL is the address of a hone serve with MiniCPM5's template.
export const url = process.env.HONE_URL;
if (!url) throw new Error("HONE_URL is not set: run tests/serve/client_node.py");

// Fields that make any model say text: nothing else matches the pattern.
export function say(text) {
  return {
    max_tokens: 400, reasoning_effort: "none",
    response_format: { type: "regex", regex: text.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&") },
  };
}

export const TOOL = { type: "function", function: {
  name: "get_weather", strict: true,
  parameters: { type: "object", properties: { city: { enum: ["Tokyo"] } }, required: ["city"], additionalProperties: false },
} };

// Resolves when no request runs or waits; rejects after 30 seconds.
export async function idle() {
  const end = Date.now() + 30_000;
  for (;;) {
    const { models } = await (await fetch(`${url}/props`)).json();
    if (models.every((model) => model.requests === 0)) return;
    if (Date.now() > end) throw new Error("still busy after 30 s");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
