// SPDX-License-Identifier: Apache-2.0
import { h, type ComponentChild } from 'preact';
import { useMemo } from 'preact/hooks';
import { Lazy, useLazy } from '../ui/hooks';

// Temml's tree, as far as it is used.
interface TemmlNode {
  type?: string;
  text?: string;
  attributes?: Record<string, unknown>;
  classes?: string[];
  style?: Record<string, unknown>;
  children?: TemmlNode[];
}

const kMaxTexChars = 5000;
const kMaxDepth = 200;
const kElements = new Set(
  ('math semantics mrow mi mo mn ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom merror menclose ' +
    'msub msup msubsup munder mover munderover mmultiscripts mprescripts none mtable mtr mtd').split(' '),
);
const kAttributes = new Set(
  ('display displaystyle scriptlevel mathvariant mathsize mathcolor mathbackground stretchy fence separator form ' +
    'lspace rspace symmetric movablelimits minsize maxsize accent accentunder largeop linethickness width height depth ' +
    'voffset columnalign rowspacing columnspacing columnlines rowlines columnspan rowspan notation side').split(' '),
);
const kStyles = new Set(
  ('color backgroundColor border borderTop borderBottom borderLeft borderRight padding paddingLeft paddingRight ' +
    'paddingTop paddingBottom fontSize fontWeight fontStyle fontFamily textAlign math-style math-depth width').split(' '),
);

function safeStyle(style: Record<string, unknown>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(style)) {
    // Colours, lengths and words; no url(…), nothing that leaves the formula.
    if (kStyles.has(name) && /^[\w#.,% -]{1,60}$/.test(String(value))) out[name] = String(value);
  }
  return out;
}

// Only known elements and attributes pass; they become DOM nodes, never HTML text.
function toVNode(node: TemmlNode, depth: number): ComponentChild {
  if (depth > kMaxDepth) throw new RangeError('formula nested too deeply');
  if (node.text !== undefined) return node.text;
  const children = (node.children ?? []).map((child) => toVNode(child, depth + 1));
  if (node.type === undefined || !kElements.has(node.type)) return h('mrow', null, children);
  const props: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(node.attributes ?? {})) {
    if (kAttributes.has(name)) props[name] = String(value);
  }
  if (node.classes?.length) props.class = node.classes.filter((name) => /^[\w-]+$/.test(name)).join(' ');
  const style = safeStyle(node.style ?? {});
  if (Object.keys(style).length > 0) props.style = style;
  return h(node.type, props, children);
}

type Temml = typeof import('temml').default;
const lazyTemml = new Lazy<Temml>(() => import('temml').then((module) => module.default));

// MathML for `tex`; undefined if it is too long or not TeX that Temml knows.
export function mathNode(temml: Temml, tex: string, display: boolean): ComponentChild | undefined {
  if (tex.length > kMaxTexChars) return undefined;
  try {
    const options = { displayMode: display, throwOnError: true, trust: false, maxExpand: 300, maxSize: [20, 20] as [number, number] };
    return toVNode(temml.__renderToMathMLTree(tex, options) as TemmlNode, 0);
  } catch {
    return undefined;
  }
}

export function Formula({ tex, display }: { tex: string; display: boolean }) {
  const temml = useLazy(lazyTemml);
  const node = useMemo(() => temml && mathNode(temml, tex, display), [temml, tex, display]);
  if (node === undefined) return <code class="tex">{tex}</code>;
  return display ? (
    <span class="math-block" tabIndex={0} role="group" aria-label="Formula">
      {node}
    </span>
  ) : (
    <span class="math-inline">{node}</span>
  );
}
