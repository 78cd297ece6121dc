// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from '../api/json';
import type { Conversation, Message } from './conversation';
import { settingsParameters } from './settings';

function assistantMessage(message: Message, withReasoning: boolean): JsonObject {
  const out: JsonObject = { role: 'assistant', content: message.content };
  if (withReasoning && message.reasoning !== '') out.reasoning_content = message.reasoning;
  if (message.toolCalls.length > 0) {
    if (message.content === '') out.content = null;
    out.tool_calls = message.toolCalls.map((call) => ({
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: call.arguments },
    }));
  }
  return out;
}

// True for an answer that says nothing: it failed or was stopped before its first word.
export function isSilent(message: Message): boolean {
  return message.role === 'assistant' && message.content === '' && message.toolCalls.length === 0;
}

// The messages to send for an answer to the last of `history`. Trimmed and silent ones are left out.
// Old thinking is not sent back, except between a tool's call and its result, where templates use it.
export function requestMessages(history: Message[], system: string): JsonObject[] {
  const out: JsonObject[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  const sent = history.filter((message) => !message.trimmed && !isSilent(message));
  const lastUser = sent.findLastIndex((message) => message.role === 'user');
  sent.forEach((message, i) => {
    const previous = out[out.length - 1];
    if (message.role === 'assistant') {
      out.push(assistantMessage(message, i > lastUser));
    } else if (message.role === 'tool') {
      out.push({ role: 'tool', tool_call_id: message.toolCallId, content: message.content });
    } else if (previous?.role === 'user') {
      // Without the answer between them: many templates refuse two user messages in a row.
      previous.content = `${previous.content as string}\n\n${message.content}`;
    } else {
      out.push({ role: 'user', content: message.content });
    }
  });
  return out;
}

// The body of POST /v1/chat/completions for an answer to the last of `history`.
export function chatRequest(conversation: Conversation, history: Message[]): JsonObject {
  return {
    model: conversation.model,
    messages: requestMessages(history, conversation.settings.system),
    ...settingsParameters(conversation.settings),
    stream: true,
    stream_options: { include_usage: true },
  };
}
