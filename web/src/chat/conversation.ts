// SPDX-License-Identifier: Apache-2.0
import type { ErrorFacts } from '../api/errors';
import type { ToolCall } from '../api/reply';
import { kDefaultSettings, type Settings } from './settings';

export type Role = 'user' | 'assistant' | 'tool';
// "writing" while the answer comes; "stopped" by the user, or because the page was left.
export type Finish = 'writing' | 'stop' | 'length' | 'tool_calls' | 'stopped' | 'error';

export interface Stats {
  promptTokens: number;
  completionTokens: number;
  firstMs: number; // from sending to the first text
  decodeMs: number; // from the first text to the last
}

export interface Message {
  id: string;
  parent: string; // "" for the first message of a branch
  role: Role;
  content: string;
  reasoning: string;
  toolCalls: ToolCall[];
  toolCallId: string; // of a tool's result
  model: string;
  createdMs: number;
  finish: Finish;
  notes: string[]; // what the server warned of
  trimmed: boolean; // shown, but no longer sent to the model
  error?: ErrorFacts;
  stats?: Stats;
}

// A tree of messages. Each parent has one chosen child; the path of chosen children is what is
// shown and sent. Editing and retrying add a sibling, so nothing is lost.
export interface Conversation {
  id: string;
  title: string;
  titleByUser: boolean;
  createdMs: number;
  updatedMs: number;
  model: string;
  settings: Settings;
  messages: Map<string, Message>; // parents come before their children
  chosen: Map<string, string>; // parent -> child
  removed: string[]; // ids of failed answers that a retry replaced
}

// Unique enough, and there without a secure context, unlike crypto.randomUUID.
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

export function newConversation(settings: Settings = kDefaultSettings, model = ''): Conversation {
  const now = Date.now();
  return {
    id: newId(),
    title: '',
    titleByUser: false,
    createdMs: now,
    updatedMs: now,
    model,
    settings: { ...settings },
    messages: new Map(),
    chosen: new Map(),
    removed: [],
  };
}

export function newMessage(role: Role, parent: string, content = ''): Message {
  return {
    id: newId(),
    parent,
    role,
    content,
    reasoning: '',
    toolCalls: [],
    toolCallId: '',
    model: '',
    createdMs: Date.now(),
    finish: 'stop',
    notes: [],
    trimmed: false,
  };
}

// Adds `message` below its parent and shows it.
export function addMessage(conversation: Conversation, message: Message) {
  conversation.messages.set(message.id, message);
  conversation.chosen.set(message.parent, message.id);
  conversation.updatedMs = Date.now();
  if (!conversation.titleByUser && conversation.title === '' && message.role === 'user') {
    conversation.title = titleFrom(message.content);
  }
}

export function titleFrom(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ');
  return line.length > 60 ? line.slice(0, 59).trimEnd() + '…' : line;
}

// parent -> children, in the order in which they were added.
export function childrenByParent(conversation: Conversation): Map<string, string[]> {
  const children = new Map<string, string[]>();
  for (const message of conversation.messages.values()) {
    const list = children.get(message.parent);
    if (list) list.push(message.id);
    else children.set(message.parent, [message.id]);
  }
  return children;
}

export interface PathEntry {
  message: Message;
  siblings: string[]; // with the message itself, in order
}

// The messages shown, first to last.
export function path(conversation: Conversation): PathEntry[] {
  const children = childrenByParent(conversation);
  const entries: PathEntry[] = [];
  let parent = '';
  for (;;) {
    const siblings = children.get(parent);
    if (!siblings) return entries;
    const chosen = conversation.chosen.get(parent) ?? '';
    const id = siblings.includes(chosen) ? chosen : siblings[siblings.length - 1];
    const message = id === undefined ? undefined : conversation.messages.get(id);
    if (!message) return entries;
    entries.push({ message, siblings });
    parent = message.id;
  }
}

// The path up to and with the message `id`, over its parents; "" gives an empty path.
export function pathTo(conversation: Conversation, id: string): Message[] {
  const out: Message[] = [];
  for (let at = conversation.messages.get(id); at; at = conversation.messages.get(at.parent)) out.push(at);
  return out.reverse();
}

// Shows `id` in place of its siblings; below it, what was shown there last.
export function choose(conversation: Conversation, id: string) {
  const message = conversation.messages.get(id);
  if (message) conversation.chosen.set(message.parent, id);
}

// Takes out an answer that failed before it said anything. It has no children.
export function dropMessage(conversation: Conversation, id: string) {
  const message = conversation.messages.get(id);
  if (!message) return;
  conversation.messages.delete(id);
  conversation.removed.push(id);
  if (conversation.chosen.get(message.parent) === id) conversation.chosen.delete(message.parent);
}

// `mine` with the messages that another tab has added to the stored copy meanwhile.
export function mergeStored(stored: Conversation, mine: Conversation): Conversation {
  const gone = new Set([...stored.removed, ...mine.removed]);
  const messages = new Map<string, Message>();
  for (const source of [stored, mine]) {
    for (const [id, message] of source.messages) {
      if (!gone.has(id)) messages.set(id, message); // the later one, mine, wins
    }
  }
  const chosen = new Map([...stored.chosen, ...mine.chosen]);
  return { ...mine, messages, chosen, removed: [...gone] };
}
