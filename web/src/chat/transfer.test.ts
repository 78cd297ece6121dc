// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { addMessage, choose, newConversation, newMessage, path, type Conversation } from './conversation';
import { kDefaultSettings } from './settings';
import { exportJson, importJson, TransferError } from './transfer_json';
import { exportMarkdown, importMarkdown } from './transfer_markdown';

function sample(): Conversation {
  const c = newConversation({ ...kDefaultSettings, system: 'Sys\n\nprompt', seed: '7' }, 'm');
  const question = newMessage('user', '', 'What?\n');
  addMessage(c, question);
  const first = { ...newMessage('assistant', question.id, 'One.'), reasoning: 'hm\n\nhm', stats: { promptTokens: 5, completionTokens: 2, firstMs: 10, decodeMs: 20 } };
  addMessage(c, first);
  addMessage(c, { ...newMessage('assistant', question.id, ''), finish: 'error', error: { message: 'no', status: 500 } });
  choose(c, first.id);
  const second = newMessage('user', first.id, '<!-- hone:user -->\n\\<!-- hone:x\n## User\n\n');
  addMessage(c, second);
  const call = { ...newMessage('assistant', second.id, ''), finish: 'tool_calls' as const, toolCalls: [{ id: 'c"1', name: 'f', arguments: '{"a":"<!-- hone:tool -->"}' }] };
  addMessage(c, call);
  addMessage(c, { ...newMessage('tool', call.id, '{\n}'), toolCallId: 'c"1' });
  return c;
}

describe('JSON', () => {
  test('an export is read back as it was', () => {
    const original = sample();
    expect(importJson(exportJson([original, newConversation()]))[0]).toEqual(original);
  });

  test('an answer that was being written is stopped', () => {
    const c = newConversation();
    addMessage(c, { ...newMessage('assistant', '', 'x'), finish: 'writing' });
    expect(path(importJson(exportJson([c]))[0]!)[0]?.message.finish).toBe('stopped');
  });

  const wrap = (conversation: unknown) => JSON.stringify({ format: 'hone-chat', version: 1, conversations: [conversation] });
  const message = { id: 'a', parent: '', role: 'user', content: '' };
  const body = { id: 'c', title: 't', messages: [message] };
  test.each([
    ['x', 'not a JSON object'],
    ['[]', 'not a JSON object'],
    ['{}', '"format" is missing'],
    ['{"format":"hone-chat","version":2}', '"version" is 2, expected 1'],
    ['{"format":"hone-chat","version":1}', '"conversations" is not an array'],
    [wrap(null), 'conversations[0] is not an object'],
    [wrap({ ...body, id: '../x' }), 'conversations[0].id is not an id'],
    [wrap({ ...body, title: 5 }), 'conversations[0].title is not a text'],
    [wrap({ ...body, messages: {} }), 'conversations[0].messages is not an array'],
    [wrap({ ...body, messages: [{ ...message, role: 'system' }] }), 'messages[0].role is "system", expected'],
    [wrap({ ...body, messages: [{ ...message, content: null }] }), 'messages[0].content is not a text'],
    [wrap({ ...body, messages: [message, message] }), 'messages[1].id is there twice'],
    [wrap({ ...body, messages: [{ ...message, parent: 'a' }] }), 'messages[0].parent is not the id of an earlier message'],
    [wrap({ ...body, messages: [{ ...message, toolCalls: [{}] }] }), 'messages[0].toolCalls[0].name is not a text'],
  ])('refuses %j', (text, reason) => {
    expect(() => importJson(text)).toThrow(TransferError);
    expect(() => importJson(text)).toThrow(reason);
  });

  test('ids like __proto__ stay ids', () => {
    const [c] = importJson(wrap({ ...body, id: '__proto__', messages: [{ ...message, id: '__proto__' }], chosen: [['', '__proto__'], ['x'], 5] }));
    expect(path(c!)).toHaveLength(1);
    expect(({} as { role?: string }).role).toBeUndefined();
  });

  test('damaged exports are refused by TransferError or read, and never anything else', () => {
    const text = exportJson([sample()]);
    let seed = 1;
    const random = (limit: number) => (seed = (seed * 48271) % 2147483647) % limit;
    for (let i = 0; i < 3000; i++) {
      const at = random(text.length);
      const damaged = text.slice(0, at) + ['', '0', '"', '{', '}', '[]', 'null,', '\\'][random(8)] + text.slice(at + random(12));
      try {
        for (const c of importJson(damaged)) path(c);
      } catch (error) {
        expect(error, damaged.slice(at - 40, at + 40)).toBeInstanceOf(TransferError);
      }
    }
  });
});

describe('Markdown', () => {
  const shape = (c: Conversation) =>
    path(c).map(({ message: m }) => [m.role, m.content, m.reasoning, m.toolCallId, JSON.stringify(m.toolCalls)]);

  test('the shown branch is read back, also when its text looks like a part', () => {
    const original = sample();
    const read = importMarkdown(exportMarkdown(original));
    expect(shape(read)).toEqual(shape(original));
    expect(read.settings.system).toBe('Sys\n\nprompt');
    expect(read.title).toBe(original.title);
  });

  test('an editor may change line ends and take away the empty line at the end', () => {
    const c = newConversation();
    const question = newMessage('user', '', 'a\nb');
    addMessage(c, question);
    addMessage(c, newMessage('assistant', question.id, 'last line'));
    for (const end of ['', '\n', '\n\n']) {
      const text = exportMarkdown(c).trimEnd().replaceAll('\n', '\r\n') + end;
      expect(shape(importMarkdown(text)), JSON.stringify(end)).toEqual(shape(c));
    }
  });

  test('other Markdown is refused', () => {
    expect(() => importMarkdown('# Title\n\ntext')).toThrow(TransferError);
    expect(() => importMarkdown('<!-- hone:tool-calls -->\n\n\n[]')).toThrow('does not follow an answer');
    expect(() => importMarkdown('<!-- hone:assistant -->\n\n\nx\n\n<!-- hone:tool-calls -->\n\n\n{}')).toThrow('not a JSON array');
  });
});
