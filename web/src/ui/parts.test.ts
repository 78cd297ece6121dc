// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { completeLength } from './announcer';
import { importFaultText } from './import_model_dialog';
import { tokensPerSecond } from './message';

test('sentences are read when they are complete', () => {
  const said = (text: string) => text.slice(0, completeLength(text));
  expect(said('One. Two')).toBe('One.');
  expect(said('Version 1.5 is')).toBe('');
  expect(said('A list:\n\n- x')).toBe('A list:\n\n');
  expect(said('')).toBe('');
});

test('speed counts the tokens behind the first', () => {
  const stats = { promptTokens: 1, completionTokens: 11, firstMs: 500, decodeMs: 2000 };
  expect(tokensPerSecond(stats)).toBe(5);
  expect(tokensPerSecond({ ...stats, completionTokens: 1 })).toBeUndefined();
  expect(tokensPerSecond({ ...stats, decodeMs: 0 })).toBeUndefined();
});

test('what an import fails by is told apart', () => {
  expect(importFaultText({ message: 'no', status: 403 })).toBe('This server does not allow importing models: no');
  expect(importFaultText({ message: 'no', status: 404 })).toBe('This server cannot import models: no');
  expect(importFaultText({ message: 'no such file', status: 404, param: 'path' })).toBe('no such file');
  expect(importFaultText({ message: 'no', status: 401 })).toMatch(/API key/);
});
