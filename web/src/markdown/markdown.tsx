// SPDX-License-Identifier: Apache-2.0
import type { Token, Tokens } from 'marked';
import { h, type ComponentChild } from 'preact';
import { useMemo } from 'preact/hooks';
import { memo } from '../ui/hooks';
import { CodeBlock } from './code';
import { decodeEntities } from './entities';
import { safeAddress } from './links';
import { Formula } from './math';
import { parseMarkdown, type MathToken } from './parse';

// Markdown of a model, as nodes. There is no way from the text to HTML: tags in it are shown as
// text, images are named and not loaded, links that are not http, https or mailto are dead.

// Tags without attributes that models write into Markdown and that can do nothing.
const kPlainTags = new Set(['sub', 'sup', 'kbd', 'mark', 'b', 'i', 'u', 's', 'strong', 'em', 'small']);

function renderInline(tokens: Token[] | undefined): ComponentChild[] {
  const out: ComponentChild[] = [];
  const list = tokens ?? [];
  for (let i = 0; i < list.length; i++) {
    const token = list[i] as Token;
    if (token.type === 'html') {
      const tag = /^<([a-z]+)>$/.exec(token.raw.toLowerCase())?.[1] ?? '';
      const end = kPlainTags.has(tag) ? list.findIndex((t, j) => j > i && t.raw.toLowerCase() === `</${tag}>`) : -1;
      if (end > 0) {
        out.push(h(tag, null, renderInline(list.slice(i + 1, end))));
        i = end;
        continue;
      }
    }
    out.push(renderSpan(token));
  }
  return out;
}

function renderLink(token: Tokens.Link): ComponentChild {
  const address = safeAddress(token.href);
  const children = renderInline(token.tokens);
  if (address === undefined) {
    return (
      <span class="dead-link" title={`Not a link that can be followed: ${token.href.slice(0, 200)}`}>
        {children}
      </span>
    );
  }
  return (
    <a href={address} target="_blank" rel="noopener noreferrer nofollow" title={address}>
      {children}
    </a>
  );
}

function renderImage(token: Tokens.Image): ComponentChild {
  const address = safeAddress(token.href);
  const label = `Image: ${token.text || 'without a description'}`;
  if (address === undefined) return <span class="image-name">{label}</span>;
  return (
    <a class="image-name" href={address} target="_blank" rel="noopener noreferrer nofollow" title={address}>
      {label}
    </a>
  );
}

function renderSpan(token: Token): ComponentChild {
  switch (token.type) {
    case 'strong':
      return <strong>{renderInline(token.tokens)}</strong>;
    case 'em':
      return <em>{renderInline(token.tokens)}</em>;
    case 'del':
      return <del>{renderInline(token.tokens)}</del>;
    case 'codespan':
      return <code>{(token as Tokens.Codespan).text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return renderLink(token as Tokens.Link);
    case 'image':
      return renderImage(token as Tokens.Image);
    case 'inlineMath':
      return <Formula tex={(token as unknown as MathToken).tex} display={(token as unknown as MathToken).display} />;
    case 'html':
      return /^<br\s*\/?>$/i.test(token.raw) ? <br /> : token.raw;
    case 'escape':
      return (token as Tokens.Escape).text;
    case 'text':
      return token.tokens ? renderInline(token.tokens) : decodeEntities((token as Tokens.Text).text);
    default:
      return token.raw;
  }
}

function renderTable(table: Tokens.Table): ComponentChild {
  const align = (i: number) => (table.align[i] ? `align-${table.align[i]}` : undefined);
  return (
    <div class="table-frame" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>{table.header.map((cell, i) => <th class={align(i)} scope="col">{renderInline(cell.tokens)}</th>)}</tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>{row.map((cell, i) => <td class={align(i)}>{renderInline(cell.tokens)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function renderList(list: Tokens.List): ComponentChild {
  const items = list.items.map((item) => (
    <li class={item.task ? 'task' : undefined}>
      {item.task && <span class="task-box" role="img" aria-label={item.checked ? 'done' : 'open'}>{item.checked ? '☑' : '☐'} </span>}
      {renderBlocks(item.tokens)}
    </li>
  ));
  if (!list.ordered) return <ul>{items}</ul>;
  return <ol start={typeof list.start === 'number' ? list.start : 1}>{items}</ol>;
}

// Headings of an answer begin below those of the page.
function renderHeading(token: Tokens.Heading): ComponentChild {
  return h(`h${Math.min(token.depth + 2, 6)}`, { class: `heading-${token.depth}` }, renderInline(token.tokens));
}

// A fence that has not been closed yet, at the end of the text.
function isOpenFence(token: Tokens.Code): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(token.raw)?.[1];
  return fence !== undefined && !token.raw.trimEnd().slice(fence.length).endsWith(fence);
}

function renderBlock(token: Token): ComponentChild {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'paragraph':
      return <p>{renderInline(token.tokens)}</p>;
    case 'text':
      return renderInline(token.tokens ?? [token]);
    case 'heading':
      return renderHeading(token as Tokens.Heading);
    case 'code': {
      const code = token as Tokens.Code;
      const language = (code.lang ?? '').trim().split(/[\s,{]/)[0]?.toLowerCase() ?? '';
      return <CodeBlock code={code.text} language={language} open={isOpenFence(code)} />;
    }
    case 'blockquote':
      return <blockquote>{renderBlocks(token.tokens)}</blockquote>;
    case 'list':
      return renderList(token as Tokens.List);
    case 'table':
      return renderTable(token as Tokens.Table);
    case 'hr':
      return <hr />;
    case 'blockMath':
      return <Formula tex={(token as unknown as MathToken).tex} display />;
    default: // also "html": shown as it is written
      return <p class="raw">{token.raw.trimEnd()}</p>;
  }
}

function renderBlocks(tokens: Token[] | undefined): ComponentChild[] {
  return (tokens ?? []).map(renderBlock);
}

// While an answer grows only its last block changes, so the others are not computed again.
const Block = memo<{ token: Token; key2: string }>(
  ({ token }) => <>{renderBlock(token)}</>,
  (a, b) => a.key2 === b.key2,
);

// `text` may still grow.
export function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => parseMarkdown(text), [text]);
  if (!tokens) return <p class="raw">{text}</p>;
  const links = Object.keys((tokens as { links?: object }).links ?? {}).length; // a late definition changes early links
  return (
    <div class="markdown">
      {tokens.map((token, i) => (
        <Block key={i} token={token} key2={`${token.type}/${links}/${token.raw}`} />
      ))}
    </div>
  );
}
