// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { SseParser, type SseEvent } from './sse';

const bytes = (text: string) => new TextEncoder().encode(text);

function parse(...pieces: Uint8Array[]): SseEvent[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

describe('SseParser', () => {
  const stream =
    '\ufeff: keep-alive\r\n\r\ndata: {"a":"Grüße 👩🏽‍🚀"}\r\n\r\nevent: error\rdata: one\rdata:two\r\rid: 7\nretry: 10\ndata\n\ndata:  two spaces\n\n' +
    'data: [DONE]\n\n';
  const expected = [
    { event: 'message', data: '{"a":"Grüße 👩🏽‍🚀"}' },
    { event: 'error', data: 'one\ntwo' },
    { event: 'message', data: '' },
    { event: 'message', data: ' two spaces' },
    { event: 'message', data: '[DONE]' },
  ];

  test('reads fields, comments and all three line ends', () => {
    expect(parse(bytes(stream))).toEqual(expected);
  });

  test('gives the same events wherever the bytes are cut', () => {
    const all = bytes(stream);
    for (let i = 0; i <= all.length; i++) {
      for (const j of [i, i + 1, i + 2, i + 5]) {
        expect(parse(all.slice(0, i), all.slice(i, j), all.slice(j)), `cut at ${i} and ${j}`).toEqual(expected);
      }
    }
  });

  test('gives the same events byte by byte', () => {
    expect(parse(...Array.from(bytes(stream), (b) => Uint8Array.of(b)))).toEqual(expected);
  });

  test('keeps back an event whose empty line has not come', () => {
    expect(parse(bytes('data: half\n'))).toEqual([]);
    expect(parse(bytes('data: half'), bytes(' an event\n'), bytes('\n'))).toEqual([{ event: 'message', data: 'half an event' }]);
  });

  test('replaces bytes that are no UTF-8', () => {
    expect(parse(Uint8Array.of(...bytes('data: a'), 0xff, ...bytes('b\n\n')))).toEqual([{ event: 'message', data: 'a\ufffdb' }]);
  });

  test('refuses an event without end', () => {
    const parser = new SseParser();
    const piece = bytes('x'.repeat(1 << 20));
    expect(() => {
      for (let i = 0; i < 20; i++) parser.push(piece);
    }).toThrow('over 16777216 characters');
  });
});
