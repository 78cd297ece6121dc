// SPDX-License-Identifier: Apache-2.0
import type { Message } from './conversation';
import type { Settings } from './settings';

export interface TrimNumbers {
  promptTokens?: number; // of the request that did not fit, or of the last one that did
  contextTokens?: number;
}

const kCharsOfMarkers = 20; // what a template writes around a message, about

function size(message: Message): number {
  const calls = message.toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, 0);
  return message.content.length + calls + kCharsOfMarkers;
}

// A turn is a user message and what follows it; turns leave as a whole.
function turns(history: Message[]): Message[][] {
  const out: Message[][] = [];
  for (const message of history) {
    const last = out[out.length - 1];
    if (message.role === 'user' || !last) out.push([message]);
    else last.push(message);
  }
  return out;
}

// Ids of the oldest messages to leave out, so that the prompt and an answer fit into the context.
// Tokens of a message are guessed from its share of the characters. The last turn always stays.
// Without numbers, the older half of the turns goes.
export function planTrim(history: Message[], settings: Settings, numbers: TrimNumbers): string[] {
  const list = turns(history.filter((message) => !message.trimmed));
  const { promptTokens, contextTokens } = numbers;
  const ids: string[] = [];
  if (!promptTokens || !contextTokens) {
    for (const turn of list.slice(0, Math.ceil((list.length - 1) / 2))) ids.push(...turn.map((m) => m.id));
    return ids;
  }
  const reserve = Math.min(Number(settings.maxTokens) || 1024, Math.floor(contextTokens / 4));
  const fixed = settings.system.length + settings.tools.length;
  const chars = list.flat().reduce((sum, message) => sum + size(message), fixed);
  const tokensPerChar = promptTokens / Math.max(chars, 1);
  let tokens = promptTokens;
  for (const turn of list.slice(0, -1)) {
    if (tokens + reserve <= contextTokens) break;
    for (const message of turn) {
      ids.push(message.id);
      tokens -= size(message) * tokensPerChar;
    }
  }
  return ids;
}
