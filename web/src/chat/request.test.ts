// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { newConversation, newMessage, type Message } from './conversation';
import { chatRequest, requestMessages } from './request';
import { kDefaultSettings, readSettings, settingsFaults, settingsParameters } from './settings';
import { planTrim } from './trim';

const user = (text: string) => newMessage('user', '', text);
const answer = (text: string, more: Partial<Message> = {}) => ({ ...newMessage('assistant', '', text), ...more });

describe('requestMessages', () => {
  test('system prompt first, if there is one', () => {
    expect(requestMessages([user('hi')], 'Be brief.')).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ]);
    expect(requestMessages([user('hi')], '  ')).toHaveLength(1);
  });

  test('trimmed messages are left out', () => {
    const old = { ...user('old'), trimmed: true };
    expect(requestMessages([old, answer('x', { trimmed: true }), user('new')], '')).toEqual([{ role: 'user', content: 'new' }]);
  });

  test('a failed answer without a word is left out, and the questions around it become one', () => {
    const failed = answer('', { finish: 'error', reasoning: 'thought only' });
    expect(requestMessages([user('a'), failed, user('b')], '')).toEqual([{ role: 'user', content: 'a\n\nb' }]);
  });

  test('thinking goes back only between a tool call and its result', () => {
    const call = { id: 'c', name: 'f', arguments: '{}' };
    const history = [
      user('a'), answer('b', { reasoning: 'old' }), user('c'),
      answer('', { reasoning: 'new', toolCalls: [call] }), { ...newMessage('tool', '', '5'), toolCallId: 'c' },
    ];
    expect(requestMessages(history, '').slice(1)).toEqual([
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: null, reasoning_content: 'new', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'c', content: '5' },
    ]);
  });

  test('a request asks for a stream with usage and nothing that was not chosen', () => {
    expect(chatRequest(newConversation(kDefaultSettings, 'm'), [user('x')])).toEqual({
      model: 'm', messages: [{ role: 'user', content: 'x' }], stream: true, stream_options: { include_usage: true },
    });
  });
});

describe('settings', () => {
  test('numbers, stops, thinking and tools become parameters', () => {
    const settings = { ...kDefaultSettings, temperature: ' 0 ', topK: '40', seed: '0', stop: 'A\n\n B', thinking: 'low', tools: '[{"function":{"name":"f"}}]' };
    expect(settingsFaults(settings)).toEqual({});
    expect(settingsParameters(settings)).toEqual({
      temperature: 0, top_k: 40, seed: 0, stop: ['A', ' B'], reasoning_effort: 'low', tools: [{ function: { name: 'f' } }],
    });
  });

  test.each([
    ['temperature', 'x'], ['temperature', '2.1'], ['temperature', '-1'], ['topP', '1.5'], ['topK', '1.5'], ['maxTokens', '0'],
    ['seed', '1e99'], ['minP', 'NaN'], ['tools', '{}'], ['tools', '[1]'], ['tools', '[{"function":{}}]'], ['tools', '['],
  ] as const)('%s %j is refused', (name, value) => {
    expect(Object.keys(settingsFaults({ ...kDefaultSettings, [name]: value }))).toEqual([name]);
  });

  test('stored settings of any shape are read', () => {
    expect(readSettings(undefined)).toEqual(kDefaultSettings);
    const stored = JSON.parse('{"temperature":1,"system":"s","thinking":"wild","__proto__":{"seed":"1"},"other":1}') as unknown;
    expect(readSettings(stored)).toEqual({ ...kDefaultSettings, system: 's' });
  });
});

describe('planTrim', () => {
  const turn = (i: number) => [user(`question ${i} `.repeat(50)), answer(`answer ${i} `.repeat(50))];
  const history = [...turn(1), ...turn(2), ...turn(3), user('last')];
  const ids = (count: number) => history.slice(0, count).map((m) => m.id);

  test('drops whole turns, the oldest first, until prompt and answer fit', () => {
    const plan = planTrim(history, { ...kDefaultSettings, maxTokens: '100' }, { promptTokens: 1200, contextTokens: 1000 });
    expect(plan).toEqual(ids(2));
    const more = planTrim(history, { ...kDefaultSettings, maxTokens: '100' }, { promptTokens: 2400, contextTokens: 1000 });
    expect(more).toEqual(ids(4));
  });

  test('never drops the last turn', () => {
    expect(planTrim(history, kDefaultSettings, { promptTokens: 1_000_000, contextTokens: 100 })).toEqual(ids(6));
    expect(planTrim([user('alone')], kDefaultSettings, { promptTokens: 200, contextTokens: 100 })).toEqual([]);
  });

  test('without numbers the older half goes', () => {
    expect(planTrim(history, kDefaultSettings, {})).toEqual(ids(4));
    expect(planTrim([user('alone')], kDefaultSettings, {})).toEqual([]);
  });

  test('what is trimmed already does not count', () => {
    const trimmed = history.map((m, i) => ({ ...m, trimmed: i < 2 }));
    expect(planTrim(trimmed, kDefaultSettings, {})).toEqual(trimmed.slice(2, 4).map((m) => m.id));
  });
});
