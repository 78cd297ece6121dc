// SPDX-License-Identifier: Apache-2.0
import { asCount, asObject, asString, parseJson } from './json';

export interface ErrorFacts {
  message: string;
  status: number; // HTTP status; 0 if there was no answer, or an error inside a stream
  code?: string;
  type?: string;
  param?: string;
  promptTokens?: number;
  contextTokens?: number;
  retryAfterSeconds?: number;
}

// What the server said when it refused.
export class ApiError extends Error {
  constructor(readonly facts: ErrorFacts) {
    super(facts.message);
  }
}

export function isContextFull(facts: ErrorFacts): boolean {
  return facts.code === 'context_length_exceeded' || facts.type === 'exceed_context_size_error';
}

// Facts from {"error":{...}} or {"error":"..."}; undefined if `body` is not of that shape.
export function errorFacts(body: unknown, status: number): ErrorFacts | undefined {
  const outer = asObject(body);
  if (!outer || outer.error === undefined || outer.error === null) return undefined;
  const error = asObject(outer.error) ?? { message: outer.error };
  const facts: ErrorFacts = { message: asString(error.message) ?? 'The server reported an error without a message.', status };
  const code = typeof error.code === 'number' ? String(error.code) : asString(error.code);
  if (code) facts.code = code;
  const type = asString(error.type);
  if (type) facts.type = type;
  const param = asString(error.param);
  if (param) facts.param = param;
  const promptTokens = asCount(error.n_prompt_tokens);
  if (promptTokens !== undefined) facts.promptTokens = promptTokens;
  const contextTokens = asCount(error.n_ctx);
  if (contextTokens !== undefined) facts.contextTokens = contextTokens;
  return facts;
}

export async function errorFromResponse(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  const facts = errorFacts(parseJson(text), response.status) ?? {
    message: `The server answered ${response.status} ${response.statusText}`.trim() + (text ? `: ${text.slice(0, 300)}` : '.'),
    status: response.status,
  };
  const retryAfter = Number(response.headers.get('Retry-After') ?? NaN);
  if (Number.isFinite(retryAfter)) facts.retryAfterSeconds = retryAfter;
  return new ApiError(facts);
}

// An error of the network, or a fault of ours, as facts to show.
export function factsOf(error: unknown): ErrorFacts {
  if (error instanceof ApiError) return error.facts;
  if (error instanceof TypeError) {
    return { message: `The server cannot be reached, or the connection broke (${error.message}).`, status: 0 };
  }
  return { message: error instanceof Error ? error.message : String(error), status: 0 };
}
