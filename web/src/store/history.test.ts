// SPDX-License-Identifier: Apache-2.0
import { IDBFactory } from 'fake-indexeddb';
import { beforeEach, describe, expect, test } from 'vitest';
import { addMessage, newConversation, newMessage, type Conversation } from '../chat/conversation';
import { fileName } from './download';
import { History } from './history';

let history: History;
beforeEach(async () => {
  history = await History.open(new IDBFactory());
});

function conversation(text: string, updatedMs: number): Conversation {
  const c = newConversation();
  addMessage(c, newMessage('user', '', text));
  c.updatedMs = updatedMs;
  return c;
}

describe('History', () => {
  test('what is saved is loaded, and listed with the latest first', async () => {
    const [a, b] = [conversation('apples', 1), conversation('pears', 2)];
    await history.save(a);
    await history.save(b);
    expect((await history.list()).map((entry) => entry.title)).toEqual(['pears', 'apples']);
    expect(await history.load(a.id)).toEqual(a);
    expect(await history.load('none')).toBeUndefined();
    expect(await history.loadAll()).toHaveLength(2);
  });

  test('search finds all words in any message, whatever the case', async () => {
    const c = conversation('Green Apples', 1);
    addMessage(c, { ...newMessage('assistant', [...c.messages.keys()][0]!, 'are sour'), reasoning: 'Malic acid' });
    await history.save(c);
    await history.save(conversation('pears', 2));
    expect([...(await history.search(' apples  SOUR malic '))]).toEqual([c.id]);
    expect([...(await history.search('apples pears'))]).toEqual([]);
  });

  test('removing removes body and entry', async () => {
    const c = conversation('x', 1);
    await history.save(c);
    await history.remove(c.id);
    expect(await history.list()).toEqual([]);
    expect(await history.load(c.id)).toBeUndefined();
  });

  test('a copy that another tab saved is joined, not replaced', async () => {
    const mine = conversation('x', 1);
    await history.save(mine);
    const theirs = (await history.load(mine.id))!;
    const parent = [...mine.messages.keys()][0]!;
    addMessage(theirs, newMessage('assistant', parent, 'theirs'));
    await history.save(theirs);
    addMessage(mine, newMessage('assistant', parent, 'mine'));
    await history.save(mine);
    const both = (await history.load(mine.id))!;
    expect([...both.messages.values()].map((m) => m.content).sort()).toEqual(['mine', 'theirs', 'x']);
  });

  test('an answer that was being written will not go on after a load', async () => {
    const c = conversation('x', 1);
    addMessage(c, { ...newMessage('assistant', '', 'half'), finish: 'writing' });
    await history.save(c);
    expect([...(await history.load(c.id))!.messages.values()].at(-1)?.finish).toBe('stopped');
  });
});

test('file names are safe on every system', () => {
  expect(fileName('../../etc: "x"?', 'json')).toBe('etc-x.json');
  expect(fileName('Grüße 世界', 'md')).toMatch(/^Gru-?.*世界\.md$/);
  expect(fileName('///', 'md')).toBe('conversation.md');
});
