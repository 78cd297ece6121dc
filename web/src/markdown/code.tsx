// SPDX-License-Identifier: Apache-2.0
import { h, type ComponentChild } from 'preact';
import { useMemo } from 'preact/hooks';
import { Lazy, useLazy } from '../ui/hooks';
import { CopyButton } from '../ui/copy_button';
import type { Highlighter } from './highlighter';

const lazyHighlighter = new Lazy<Highlighter>(() => import('./highlighter').then((module) => module.highlighter));
const kMaxHighlightChars = 50_000;

interface ScopeNode {
  scope?: string;
}
interface Walkable {
  walk(builder: { addText(text: string): void; openNode(node: ScopeNode): void; closeNode(node: ScopeNode): void }): unknown;
}

// The spans of highlighted code as nodes; undefined if the language is not known.
export function highlightedNodes(highlighter: Highlighter, code: string, language: string): ComponentChild[] | undefined {
  if (code.length > kMaxHighlightChars || !highlighter.getLanguage(language)) return undefined;
  const result = highlighter.highlight(code, { language, ignoreIllegals: true });
  const stack: { scope: string; children: ComponentChild[] }[] = [{ scope: '', children: [] }];
  (result._emitter as unknown as Walkable).walk({
    addText: (text) => void stack.at(-1)?.children.push(text),
    openNode: (node) => void stack.push({ scope: node.scope ?? '', children: [] }),
    closeNode: () => {
      const done = stack.pop();
      if (done) stack.at(-1)?.children.push(h('span', { class: scopeClass(done.scope) }, done.children));
    },
  });
  return stack[0]?.children;
}

// "title.function" is a title first; the style sheet knows the first word.
function scopeClass(scope: string): string {
  return /^[a-z]/.test(scope) ? `hl-${scope.split(/[.:]/)[0]}` : '';
}

// While a block is still being written it stays plain: colouring it again for each token is slow.
export function CodeBlock({ code, language, open }: { code: string; language: string; open: boolean }) {
  const highlighter = useLazy(lazyHighlighter);
  const nodes = useMemo(
    () => (highlighter && !open ? highlightedNodes(highlighter, code, language) : undefined),
    [highlighter, code, language, open],
  );
  return (
    <div class="code-block">
      <div class="code-head">
        <span class="code-language">{language || 'text'}</span>
        <CopyButton text={code} label="Copy code" />
      </div>
      <pre tabIndex={0} role="group" aria-label={`Code${language ? `, ${language}` : ''}`}>
        <code>{nodes ?? code}</code>
      </pre>
    </div>
  );
}
