// SPDX-License-Identifier: Apache-2.0
import { ApiError, errorFromResponse } from './errors';
import { asArray, asCount, asObject, asString, parseJson, type JsonObject } from './json';
import { Reply } from './reply';
import { SseParser } from './sse';

export interface ModelInfo {
  id: string;
  contextTokens?: number;
}

export interface ImportRequest {
  path: string;
  accelerators: string[];
  context?: number;
  thinking?: boolean; // not given: as the bundle says
}

// Addresses are relative to the page, so that it also works below a path of a proxy.
function address(path: string): string {
  return new URL(path, document.baseURI).href;
}

function headers(apiKey: string): Record<string, string> {
  return apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
}

async function readJson(response: Response): Promise<unknown> {
  if (!response.ok) throw await errorFromResponse(response);
  const body = parseJson(await response.text());
  if (body === undefined) throw new Error(`the server's answer to ${new URL(response.url).pathname} is not JSON`);
  return body;
}

function modelInfo(value: unknown): ModelInfo | undefined {
  const entry = asObject(value);
  const id = asString(entry?.id);
  if (!entry || !id) return undefined;
  const contextTokens =
    asCount(entry.context_length) ?? asCount(entry.max_model_len) ?? asCount(asObject(entry.meta)?.n_ctx);
  return contextTokens ? { id, contextTokens } : { id };
}

export async function listModels(apiKey: string): Promise<ModelInfo[]> {
  const body = await readJson(await fetch(address('v1/models'), { headers: headers(apiKey) }));
  return asArray(asObject(body)?.data)
    .map(modelInfo)
    .filter((model) => model !== undefined);
}

// The id of the imported model, or "" if the server did not say it.
export async function importModel(request: ImportRequest, apiKey: string): Promise<string> {
  const response = await fetch(address('models/import'), {
    method: 'POST',
    headers: { ...headers(apiKey), 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
  });
  return asString(asObject(await readJson(response))?.id) ?? '';
}

// Streams one answer into `reply` and calls `onText` after each chunk that brought text.
// Throws ApiError for what the server refuses and DOMException "AbortError" after an abort.
export async function streamChat(
  body: JsonObject,
  reply: Reply,
  options: { apiKey: string; signal: AbortSignal; onText: () => void },
): Promise<void> {
  const response = await fetch(address('v1/chat/completions'), {
    method: 'POST',
    headers: { ...headers(options.apiKey), 'Content-Type': 'application/json', Accept: 'text/event-stream' },
    body: JSON.stringify(body),
    signal: options.signal,
  });
  if (!response.ok) throw await errorFromResponse(response);
  if (!response.body || !(response.headers.get('Content-Type') ?? '').startsWith('text/event-stream')) {
    throw new ApiError({ message: 'The server did not answer with an event stream.', status: response.status });
  }
  const reader = response.body.getReader();
  try {
    await readEvents(reader, reply, options.onText);
  } finally {
    reader.cancel().catch(() => undefined); // after an error or [DONE], the rest is of no use
  }
}

async function readEvents(reader: ReadableStreamDefaultReader<Uint8Array>, reply: Reply, onText: () => void) {
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new ApiError({ message: 'The connection ended before the answer was complete.', status: 0 });
    for (const event of parser.push(value)) {
      if (event.data === '[DONE]') return;
      const chunk = parseJson(event.data);
      if (chunk === undefined) throw new Error('the server sent a chunk that is not JSON');
      if (reply.add(chunk)) onText();
    }
  }
}
