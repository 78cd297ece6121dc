// SPDX-License-Identifier: Apache-2.0
import { asArray, asCount, asObject, asString, parseJson, type JsonObject } from '../api/json';
import type { ToolCall } from '../api/reply';
import { newConversation, type Conversation, type Finish, type Message, type Role } from './conversation';
import { readSettings } from './settings';

// The file of "Export": {"format": "hone-chat", "version": 1, "conversations": [...]}.
const kFormat = 'hone-chat';
const kVersion = 1;

export class TransferError extends Error {}

function conversationToJson(conversation: Conversation): JsonObject {
  return { ...conversation, messages: [...conversation.messages.values()], chosen: [...conversation.chosen] };
}

export function exportJson(conversations: Conversation[]): string {
  const body = { format: kFormat, version: kVersion, conversations: conversations.map(conversationToJson) };
  return JSON.stringify(body, null, 1) + '\n';
}

// Reads an export. Throws TransferError, which names the field and what it should be.
export function importJson(text: string): Conversation[] {
  const file = asObject(parseJson(text));
  if (!file) throw new TransferError('the file is not a JSON object; expected an export of this page');
  if (file.format !== kFormat) throw new TransferError(`"format" is ${show(file.format)}, expected "${kFormat}"`);
  if (file.version !== kVersion) throw new TransferError(`"version" is ${show(file.version)}, expected ${kVersion}`);
  if (!Array.isArray(file.conversations)) throw new TransferError('"conversations" is not an array');
  return file.conversations.map((value, i) => readConversation(value, `conversations[${i}]`));
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? 'missing').slice(0, 60);
}

function need<T>(value: T | undefined, where: string, expected: string): T {
  if (value === undefined) throw new TransferError(`${where} is not ${expected}`);
  return value;
}

function readConversation(value: unknown, where: string): Conversation {
  const object = need(asObject(value), where, 'an object');
  const out = newConversation(readSettings(object.settings), asString(object.model) ?? '');
  out.id = need(readId(object.id), `${where}.id`, 'an id (letters, digits, - and _)');
  out.title = need(asString(object.title), `${where}.title`, 'a text');
  out.titleByUser = object.titleByUser === true;
  out.createdMs = asCount(object.createdMs) ?? out.createdMs;
  out.updatedMs = asCount(object.updatedMs) ?? out.updatedMs;
  if (!Array.isArray(object.messages)) throw new TransferError(`${where}.messages is not an array`);
  object.messages.forEach((item, i) => {
    const message = readMessage(item, `${where}.messages[${i}]`);
    if (out.messages.has(message.id)) throw new TransferError(`${where}.messages[${i}].id is there twice`);
    // Parents first: no cycle, and nothing hangs in the air.
    if (message.parent !== '' && !out.messages.has(message.parent)) {
      throw new TransferError(`${where}.messages[${i}].parent is not the id of an earlier message`);
    }
    out.messages.set(message.id, message);
  });
  for (const pair of asArray(object.chosen)) {
    const [parent, child] = asArray(pair).map(asString);
    if (child !== undefined && out.messages.get(child)?.parent === parent) out.chosen.set(parent ?? '', child);
  }
  return out;
}

function readId(value: unknown): string | undefined {
  const id = asString(value);
  return id !== undefined && /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : undefined;
}

function readMessage(value: unknown, where: string): Message {
  const object = need(asObject(value), where, 'an object');
  const role = asString(object.role);
  if (role !== 'user' && role !== 'assistant' && role !== 'tool') {
    throw new TransferError(`${where}.role is ${show(object.role)}, expected "user", "assistant" or "tool"`);
  }
  const out: Message = {
    id: need(readId(object.id), `${where}.id`, 'an id (letters, digits, - and _)'),
    parent: object.parent === '' ? '' : need(readId(object.parent), `${where}.parent`, 'an id or ""'),
    role: role satisfies Role,
    content: need(asString(object.content), `${where}.content`, 'a text'),
    reasoning: asString(object.reasoning) ?? '',
    toolCalls: asArray(object.toolCalls).map((call, i) => readToolCall(call, `${where}.toolCalls[${i}]`)),
    toolCallId: asString(object.toolCallId) ?? '',
    model: asString(object.model) ?? '',
    createdMs: asCount(object.createdMs) ?? Date.now(),
    finish: readFinish(object.finish),
    notes: asArray(object.notes).filter((note) => typeof note === 'string'),
    trimmed: object.trimmed === true,
  };
  const error = asString(asObject(object.error)?.message);
  if (error !== undefined) out.error = { message: error, status: asCount(asObject(object.error)?.status) ?? 0 };
  readStats(out, asObject(object.stats));
  return out;
}

function readToolCall(value: unknown, where: string): ToolCall {
  const object = need(asObject(value), where, 'an object');
  return {
    id: asString(object.id) ?? '',
    name: need(asString(object.name), `${where}.name`, 'a text'),
    arguments: asString(object.arguments) ?? '',
  };
}

// An answer that was being written when it was stored will not go on.
export function readFinish(value: unknown): Finish {
  const known: unknown[] = ['stop', 'length', 'tool_calls', 'stopped', 'error'];
  return known.includes(value) ? (value as Finish) : 'stopped';
}

function readStats(out: Message, stats: JsonObject | undefined) {
  const promptTokens = asCount(stats?.promptTokens);
  const completionTokens = asCount(stats?.completionTokens);
  const firstMs = Number(stats?.firstMs);
  const decodeMs = Number(stats?.decodeMs);
  if (promptTokens === undefined || completionTokens === undefined || !(firstMs >= 0) || !(decodeMs >= 0)) return;
  out.stats = { promptTokens, completionTokens, firstMs, decodeMs };
}
