// SPDX-License-Identifier: Apache-2.0
import type { Token, Tokens } from 'marked';
import { decodeEntities } from './entities';
import { parseMarkdown, type MathToken } from './parse';

// What Markdown says without its marks, to be read aloud. Blocks are divided by line ends.
export function plainText(markdown: string): string {
  const tokens = parseMarkdown(markdown);
  if (!tokens) return markdown;
  return tokens.map(tokenText).filter((text) => text !== '').join('\n');
}

function tokenText(token: Token): string {
  switch (token.type) {
    case 'space':
    case 'def':
    case 'hr':
      return '';
    case 'code':
    case 'codespan':
    case 'escape':
    case 'image':
      return (token as Tokens.Code | Tokens.Codespan | Tokens.Escape | Tokens.Image).text;
    case 'blockMath':
    case 'inlineMath':
      return (token as unknown as MathToken).tex;
    case 'list':
      return (token as Tokens.List).items.map((item) => item.tokens.map(tokenText).join(' ')).join('\n');
    case 'table': {
      const table = token as Tokens.Table;
      return [table.header, ...table.rows].map((row) => row.map((cell) => cell.tokens.map(tokenText).join('')).join(', ')).join('\n');
    }
    default: {
      const { tokens } = token as { tokens?: Token[] };
      if (tokens) return tokens.map(tokenText).join('');
      return token.type === 'text' ? decodeEntities((token as Tokens.Text).text) : token.raw;
    }
  }
}
