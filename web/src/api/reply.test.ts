// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { ApiError, errorFacts, errorFromResponse, factsOf, isContextFull } from './errors';
import { Reply } from './reply';

const delta = (value: object, finish: string | null = null) => ({ choices: [{ index: 0, delta: value, finish_reason: finish }] });

describe('Reply', () => {
  test('joins content, thinking, finish and usage', () => {
    const reply = new Reply();
    expect(reply.add(delta({ role: 'assistant', content: '' }))).toBe(false);
    expect(reply.add(delta({ reasoning_content: 'hm' }))).toBe(true);
    expect(reply.add(delta({ content: 'a' }))).toBe(true);
    reply.add({ ...delta({ content: 'b' }, 'length'), model: 'm' });
    expect(reply.add({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })).toBe(false);
    expect(reply).toMatchObject({
      content: 'ab', reasoning: 'hm', finish: 'length', model: 'm', numDeltas: 3, usage: { promptTokens: 3, completionTokens: 2 },
    });
  });

  test('joins parallel tool calls by index, without losing names to empty ones', () => {
    const reply = new Reply();
    reply.add(delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }] }));
    reply.add(delta({ tool_calls: [{ index: 0, function: { name: '', arguments: '{"x"' } }] }));
    reply.add(delta({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '{}' } }, { index: 0, id: '', function: { arguments: ':1}' } }] }));
    expect(reply.toolCalls).toEqual([
      { id: 'a', name: 'f', arguments: '{"x":1}' },
      { id: 'b', name: 'g', arguments: '{}' },
    ]);
  });

  test('takes wrong types as absent and wild indexes as nothing', () => {
    const reply = new Reply();
    for (const chunk of [{}, { choices: 5 }, { choices: [null] }, delta({ content: 7, reasoning_content: [], tool_calls: {} })]) {
      expect(reply.add(chunk)).toBe(false);
    }
    for (const index of [-1, 1.5, 1e9, '0', null]) reply.add(delta({ tool_calls: [{ index, id: 'x' }, null] }));
    expect(reply.toolCalls).toEqual([]);
    expect(() => reply.add([])).toThrow('not a JSON object');
  });

  test('keeps warnings and ignored fields, each once', () => {
    const reply = new Reply();
    for (let i = 0; i < 2; i++) reply.add({ choices: [], warnings: ['trimmed 2 turns', 5], ignored_fields: ['a', 'b'] });
    expect(reply.notes).toEqual(['trimmed 2 turns', 'The server ignored: a, b.']);
  });

  test('throws an error that comes inside the stream', () => {
    expect(() => new Reply().add({ error: { message: 'gone', code: 'x' } })).toThrow(ApiError);
  });
});

describe('errors', () => {
  test('facts of an error body', () => {
    const facts = errorFacts(
      { error: { message: 'too long', type: 'exceed_context_size_error', param: 'messages', code: 400, n_prompt_tokens: 9, n_ctx: 8 } }, 400);
    expect(facts).toEqual({ message: 'too long', status: 400, type: 'exceed_context_size_error', param: 'messages', code: '400', promptTokens: 9, contextTokens: 8 });
    expect(isContextFull(facts!)).toBe(true);
    expect(isContextFull({ message: '', status: 400, code: 'context_length_exceeded' })).toBe(true);
    expect(isContextFull({ message: '', status: 400, code: 'other' })).toBe(false);
  });

  test('a plain text as error, none, and one without a message', () => {
    expect(errorFacts({ error: 'no' }, 500)?.message).toBe('no');
    expect(errorFacts({ error: null }, 500)).toBeUndefined();
    expect(errorFacts('x', 500)).toBeUndefined();
    expect(errorFacts({ error: {} }, 500)?.message).toBe('The server reported an error without a message.');
  });

  test('an answer that is no JSON gives its status and its begin', async () => {
    const response = new Response('<html>'.repeat(100), { status: 502, statusText: 'Bad Gateway', headers: { 'Retry-After': '3' } });
    const { facts } = await errorFromResponse(response);
    expect(facts.message).toMatch(/^The server answered 502 Bad Gateway: <html>/);
    expect(facts.message.length).toBeLessThan(400);
    expect(facts.retryAfterSeconds).toBe(3);
  });

  test('a broken connection is said in words', () => {
    expect(factsOf(new TypeError('Failed to fetch')).message).toMatch(/cannot be reached/);
  });
});
