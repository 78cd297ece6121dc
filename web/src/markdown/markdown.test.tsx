// SPDX-License-Identifier: Apache-2.0
import type { Token } from 'marked';
import { render, type ComponentChild, type VNode } from 'preact';
import temml from 'temml';
import { describe, expect, test } from 'vitest';
import { kMarkdownSample, kXssSample } from '../../../tests/web/samples.mjs';
import { highlightedNodes } from './code';
import { highlighter } from './highlighter';
import { safeAddress } from './links';
import { Markdown } from './markdown';
import { mathNode } from './math';
import { plainText } from './plain_text';
import { parseMarkdown, type MathToken } from './parse';

// jsdom's MathML elements have no style; browsers' have.
Object.defineProperty(Element.prototype, 'style', { get: () => ({}), configurable: true });

function show(text: string): HTMLElement {
  const root = document.createElement('div');
  render(<Markdown text={text} />, root);
  return root;
}
function showMath(tex: string, display = false): HTMLElement {
  const root = document.createElement('div');
  render(<>{mathNode(temml, tex, display)}</>, root);
  return root;
}

function formulas(tokens: Token[] | undefined): string[] {
  return (tokens ?? []).flatMap((token) => {
    if (token.type === 'inlineMath' || token.type === 'blockMath') return [(token as unknown as MathToken).tex];
    return formulas((token as { tokens?: Token[] }).tokens);
  });
}

// Elements that may come from a model's text, and nothing else.
const kAllowed = new Set(
  ('div p span strong em del code pre br a h3 h4 h5 h6 ul ol li blockquote hr table thead tbody tr th td button svg path ' +
    'sub sup kbd mark b i u s small math semantics mrow mi mo mn ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom merror ' +
    'menclose msub msup msubsup munder mover munderover mmultiscripts mprescripts none mtable mtr mtd').split(' '),
);
function faults(root: HTMLElement): string[] {
  const out: string[] = [];
  for (const element of root.querySelectorAll('*')) {
    if (!kAllowed.has(element.localName)) out.push(`<${element.localName}>`);
    for (const { name, value } of element.attributes) {
      if (name.startsWith('on') || name === 'src' || name === 'srcdoc' || name === 'id' || name === 'action') out.push(`${name}=${value}`);
      if (name.endsWith('href') && !/^(https?|mailto):/.test(value)) out.push(`${name}=${value}`);
      if (name === 'style' && /url|position|expression/i.test(value)) out.push(`${name}=${value}`);
    }
  }
  return out;
}

describe('Markdown', () => {
  test('blocks and spans', () => {
    const root = show('# One\n\nA **b** *c* ~~d~~ `e<f>` &amp; &#39; \\* 1\\. x\n\n- [x] done\n- two\n\n3. three\n\n> q\n\n| a | b |\n|--:|:-:|\n| 1 | 2<br>3 |\n\n---');
    expect(root.querySelector('h3')?.textContent).toBe('One');
    expect(root.querySelector('p')?.textContent).toBe("A b c d e<f> & ' * 1. x");
    expect(root.querySelector('[aria-label=done]')).not.toBeNull();
    expect(root.querySelector('ol')?.getAttribute('start')).toBe('3');
    expect(root.querySelector('td.align-center')?.innerHTML).toBe('2<br>3');
    expect(root.querySelectorAll('blockquote, hr')).toHaveLength(2);
  });

  test('HTML is shown as text, but for a few plain tags', () => {
    expect(show('<img src=x onerror=alert(1)>').textContent).toBe('<img src=x onerror=alert(1)>');
    expect(show('H<sub>2</sub>O and <b onclick=x>y</b>').querySelector('p')?.innerHTML).toBe('H<sub>2</sub>O and &lt;b onclick=x&gt;y&lt;/b&gt;');
    expect(show('a <sub>never closed').textContent).toBe('a <sub>never closed');
  });

  test('nothing of the hostile sample becomes an element or attribute that could act', () => {
    expect(faults(show(kXssSample))).toEqual([]);
    expect(faults(show(kMarkdownSample))).toEqual([]);
  });

  test('no mix of hostile pieces does', () => {
    const pieces = [
      '<img src=x onerror=alert(1)>', '<script>', '</script>', '[x](', 'javascript:alert(1)', ')', '![', '](data:text/html,<b>)', '`', '```', '\n\n', '\n', '|', '|-|-|',
      '> ', '- ', '# ', '$', '$$', '\\(', '\\)', '\\[', '\\]', '\\href{javascript:x}{y}', '<sub>', '</sub>', '<svg onload=x>', '&#106;', '&Tab;', '<javascript:x>', '*', '**', '_', '[r]: javascript:x\n', '[r]',
      '<a href="', '">', "'", '\0', '\u202e', '<!--', '-->', '<![CDATA[', 'https://', 'http://a@b', '<br>', '~~', '\\', '   ', '<http://x>', 'www.x.org',
    ];
    let seed = 7;
    const random = (limit: number) => (seed = (seed * 48271) % 2147483647) % limit;
    for (let i = 0; i < 1500; i++) {
      const text = Array.from({ length: 1 + random(14) }, () => pieces[random(pieces.length)]).join('');
      expect(faults(show(text)), text).toEqual([]);
    }
  });

  test('a late definition of a link reaches the text before it', () => {
    const root = document.createElement('div');
    render(<Markdown text={'see [a][r]\n\ntext'} />, root);
    expect(root.querySelector('a')).toBeNull();
    render(<Markdown text={'see [a][r]\n\ntext\n\n[r]: https://x.example/'} />, root);
    expect(root.querySelector('a')?.getAttribute('href')).toBe('https://x.example/');
  });

  test('a growing text ends as the whole text does', () => {
    const root = document.createElement('div');
    for (let i = 0; i <= kMarkdownSample.length; i += 7) render(<Markdown text={kMarkdownSample.slice(0, i)} />, root);
    render(<Markdown text={kMarkdownSample} />, root);
    expect(root.isEqualNode(show(kMarkdownSample))).toBe(true);
  });

  test('nesting without end is shown as it is', () => {
    const deep = '>'.repeat(100_000);
    expect(parseMarkdown(deep)).toBeUndefined();
    expect(show(deep).textContent).toBe(deep);
  });

  test.each([
    ['a $x+1$ b', ['x+1']], ['costs $5 and $6', []], ['$ x $', []], ['$x$5', []], ['\\(a_1\\) and \\[b\\]', ['a_1', 'b']], ['$$\na\n$$', ['a']], ['\\[\na\n\\]', ['a']],
    ['`$x$`', []], ['$a\\$b$', ['a\\$b']], ['text $$y$$ text', ['y']], ['```\n$x$\n```', []], ['a\n$$z$$\nb', ['z']],
  ])('formulas in %j', (text, expected) => {
    expect(formulas(parseMarkdown(text))).toEqual(expected);
  });
});

test('what is read aloud has no marks', () => {
  expect(plainText('# A **b** `c`\n\n- x &amp; [y](https://z.example)\n- $q$\n\n| a | b |\n|--|--|\n| 1 | 2 |')).toBe('A b c\nx & y\nq\na, b\n1, 2');
  expect(plainText('<b onclick=x>y')).toBe('<b onclick=x>y');
});

describe('safeAddress', () => {
  test.each(['https://a.example/b?c#d', 'http://127.0.0.1:1/', 'mailto:a@b.example'])('%s may be followed', (href) => {
    expect(safeAddress(href)).toBe(href);
  });
  test.each([
    'javascript:alert(1)', ' JaVaScRiPt:alert(1)', 'java\tscript:alert(1)', '\u0001javascript:x', 'data:text/html,x', 'vbscript:x', 'blob:http://a/b', 'file:///etc/passwd',
    '/v1/models', '#x', '//evil.example', 'x', '', 'https://bank.example@evil.example/', 'http://a:b@c/', 'ftp://x/', 'about:blank', 'chrome://x',
  ])('%j may not', (href) => {
    expect(safeAddress(href)).toBeUndefined();
  });
});

// "name:value" of all styles below `node`.
function styles(node: ComponentChild): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const { style, children } = (node as VNode<{ style?: Record<string, string>; children?: ComponentChild[] }>).props;
  const own = Object.entries(style ?? {}).map(([name, value]) => `${name}:${value}`);
  return [...own, ...[children ?? []].flat().flatMap(styles)];
}

describe('formulas', () => {
  test('keep colours and boxes as styles', () => {
    expect(styles(mathNode(temml, '\\color{red}x', false))).toEqual(['color:#ff0000']);
    expect(styles(mathNode(temml, '\\boxed{x}', false)).length).toBeGreaterThan(0);
  });

  test('become MathML in its namespace', () => {
    const math = showMath('\\frac{a}{b^2}', true).querySelector('math');
    expect(math?.namespaceURI).toBe('http://www.w3.org/1998/Math/MathML');
    expect(math?.querySelectorAll('mfrac > *')).toHaveLength(2);
    expect(math?.getAttribute('display')).toBe('block');
  });
  test.each(['\\frac{', '\\nosuchcommand', '}', 'x'.repeat(6000), '\\def\\a{\\a\\a}\\a', '\\href{javascript:x}{y}'])('%.30j is shown as source', (tex) => {
    expect(mathNode(temml, tex, false)).toBeUndefined();
  });
  test.each([
    '\\color{red}x', '\\colorbox{yellow}{x}', '\\text{<img src=x onerror=x>}', '\\rule{999em}{999em}', '\\boxed{x}', '\\cancel{x}', '\\begin{array}{c|c}a&b\\\\\\hline c&d\\end{array}', '\\xrightarrow{abc}', '\\text{\\href{a}}',
    '\\htmlStyle{position:fixed}{x}', '\\class{a" onclick="x}{y}', '\\id{x}{y}', '\\data{x=y}{z}', '\\includegraphics{http://x/y.png}', '\\url{http://x}', '\\phantom{x}', '\\tag{1} x', '\\ce{H2O}',
  ])('%j makes nothing that could act', (tex) => {
    for (const display of [false, true]) {
      expect(faults(showMath(tex, display))).toEqual([]);
      expect(styles(mathNode(temml, tex, display)).filter((style) => !/^[\w-]+:[\w#.,% -]+$/.test(style))).toEqual([]);
    }
  });
});

describe('code', () => {
  test('colours are spans around the same text', () => {
    const code = 'fn main() { println!("<b>{}", 1); } // end';
    const root = document.createElement('div');
    render(<>{highlightedNodes(highlighter, code, 'rust')}</>, root);
    expect(root.textContent).toBe(code);
    expect(root.querySelector('.hl-keyword')?.textContent).toBe('fn');
    expect(faults(root)).toEqual([]);
  });
  test('an unknown language stays plain', () => {
    expect(highlightedNodes(highlighter, 'x', 'nosuch')).toBeUndefined();
    expect(highlightedNodes(highlighter, 'x', '__proto__')).toBeUndefined();
    expect(highlightedNodes(highlighter, 'x'.repeat(60_000), 'c')).toBeUndefined();
  });
});
