// SPDX-License-Identifier: Apache-2.0
import { Marked, type Token, type TokenizerAndRendererExtension, type Tokens } from 'marked';

export interface MathToken {
  type: 'blockMath' | 'inlineMath';
  raw: string;
  tex: string;
  display: boolean;
}

function mathToken(type: MathToken['type'], match: RegExpExecArray | null, display: boolean): Tokens.Generic | undefined {
  const tex = match?.slice(1).find((group) => group !== undefined);
  if (!match || tex === undefined || tex.trim() === '') return undefined;
  return { type, raw: match[0], tex: tex.trim(), display };
}

// $$ … $$ or \[ … \] that begin a line.
const blockMath: TokenizerAndRendererExtension = {
  name: 'blockMath',
  level: 'block',
  start: (src) => /(^|\n) {0,3}(\$\$|\\\[)/.exec(src)?.index,
  tokenizer(src) {
    const match = /^ {0,3}(?:\$\$((?:[^$\\]|\\[^]|\$(?!\$))+?)\$\$|\\\[((?:[^\\]|\\[^\]])+?)\\\])[ \t]*(?:\n|$)/.exec(src);
    return mathToken('blockMath', match, true);
  },
};

// \( … \), \[ … \], $$ … $$ and $ … $ within a line. A single dollar counts only without space
// inside and without a digit behind it, so that "$5 and $6" stays money.
const inlineMath: TokenizerAndRendererExtension = {
  name: 'inlineMath',
  level: 'inline',
  start: (src) => /\$|\\\(|\\\[/.exec(src)?.index,
  tokenizer(src) {
    const display = /^(?:\$\$((?:[^$\\]|\\[^])+?)\$\$|\\\[((?:[^\\]|\\[^\]])+?)\\\])/.exec(src);
    if (display) return mathToken('inlineMath', display, true);
    const match = /^(?:\\\(((?:[^\\]|\\[^)])+?)\\\)|\$(?![\s$])((?:[^$\\\n]|\\.)*?(?:[^\s$\\]|\\.))\$(?!\d))/.exec(src);
    return mathToken('inlineMath', match, false);
  },
};

const parser = new Marked({ gfm: true });
parser.use({ extensions: [blockMath, inlineMath] });

let lastLexMs = 0;
// How long the last parse took: who repaints often asks, to leave time for the rest of the page.
export function lexMs(): number {
  return lastLexMs;
}

// Markdown as marked's tokens. Nothing is rendered to HTML, here or later. undefined if the text is
// nested too deeply to parse.
export function parseMarkdown(text: string): Token[] | undefined {
  const began = performance.now();
  try {
    return parser.lexer(text);
  } catch {
    return undefined; // RangeError: too much recursion
  } finally {
    lastLexMs = performance.now() - began;
  }
}
