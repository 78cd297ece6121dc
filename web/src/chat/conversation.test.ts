// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import {
  addMessage, choose, dropMessage, mergeStored, newConversation, newId, newMessage, path, pathTo, titleFrom, type Conversation,
} from './conversation';

function add(conversation: Conversation, parent: string, role: 'user' | 'assistant', text: string): string {
  const message = newMessage(role, parent, text);
  addMessage(conversation, message);
  return message.id;
}
const texts = (conversation: Conversation) => path(conversation).map(({ message }) => message.content);

// u1 -> a1 -> u2 -> a2, with a1b beside a1 and u1b beside u1.
function tree() {
  const c = newConversation();
  const u1 = add(c, '', 'user', 'u1');
  const a1 = add(c, u1, 'assistant', 'a1');
  const u2 = add(c, a1, 'user', 'u2');
  const a2 = add(c, u2, 'assistant', 'a2');
  return { c, u1, a1, u2, a2 };
}

describe('conversation tree', () => {
  test('what is added is shown, and the first question is the title', () => {
    const { c } = tree();
    expect(texts(c)).toEqual(['u1', 'a1', 'u2', 'a2']);
    expect(c.title).toBe('u1');
  });

  test('a sibling hides the old branch, and choosing brings all of it back', () => {
    const { c, u1, a1 } = tree();
    const other = add(c, u1, 'assistant', 'a1b');
    expect(texts(c)).toEqual(['u1', 'a1b']);
    expect(path(c)[1]?.siblings).toEqual([a1, other]);
    choose(c, a1);
    expect(texts(c)).toEqual(['u1', 'a1', 'u2', 'a2']);
  });

  test('the first message has branches, too', () => {
    const { c, u1 } = tree();
    add(c, '', 'user', 'u1b');
    expect(texts(c)).toEqual(['u1b']);
    choose(c, u1);
    expect(texts(c)).toEqual(['u1', 'a1', 'u2', 'a2']);
  });

  test('each fork remembers what was chosen below it', () => {
    const { c, u1, a1, u2, a2 } = tree();
    add(c, u2, 'assistant', 'a2b');
    choose(c, a2);
    add(c, u1, 'assistant', 'a1b');
    choose(c, a1);
    expect(texts(c)).toEqual(['u1', 'a1', 'u2', 'a2']);
  });

  test('pathTo follows the parents, whatever is chosen', () => {
    const { c, u1, a2 } = tree();
    add(c, u1, 'assistant', 'a1b');
    expect(pathTo(c, a2).map((m) => m.content)).toEqual(['u1', 'a1', 'u2', 'a2']);
    expect(pathTo(c, '')).toEqual([]);
  });

  test('a dropped answer leaves its siblings', () => {
    const { c, u1, a1 } = tree();
    const failed = add(c, u1, 'assistant', '');
    dropMessage(c, failed);
    expect(path(c)[1]?.siblings).toEqual([a1]);
    expect(texts(c)).toEqual(['u1', 'a1', 'u2', 'a2']);
  });

  test('merging keeps the messages of both tabs and none that a retry removed', () => {
    const { c, u1, a2 } = tree();
    const stored = structuredClone(c);
    add(stored, a2, 'user', 'from the other tab');
    const failed = add(c, u1, 'assistant', 'failed');
    const storedAgain = structuredClone(stored);
    storedAgain.messages.set(failed, c.messages.get(failed)!);
    dropMessage(c, failed);
    const merged = mergeStored(storedAgain, c);
    expect([...merged.messages.values()].map((m) => m.content)).toEqual(['u1', 'a1', 'u2', 'a2', 'from the other tab']);
    for (const [parent, child] of merged.chosen) expect([parent, merged.messages.has(child)]).toEqual([parent, true]);
  });

  test('ids differ, and long titles are cut', () => {
    expect(new Set(Array.from({ length: 1000 }, newId)).size).toBe(1000);
    expect(titleFrom(' a\n b ')).toBe('a b');
    expect(titleFrom('x'.repeat(100))).toHaveLength(60);
  });
});
