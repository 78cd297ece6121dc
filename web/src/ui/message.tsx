// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from 'preact/hooks';
import { isContextFull } from '../api/errors';
import { parseJson } from '../api/json';
import type { ToolCall } from '../api/reply';
import type { Message, Stats } from '../chat/conversation';
import { Markdown } from '../markdown/markdown';
import type { App } from '../store/app';
import { useAutosize } from './composer';
import { CopyButton } from './copy_button';
import { memo } from './hooks';
import { Icon } from './icon';

interface Props {
  app: App;
  message: Message;
  siblings: string[];
  isLast: boolean;
  busy: boolean; // some answer of the conversation is being written
  version: string; // changes with what is shown of the message
}

export function messageVersion(message: Message): string {
  const calls = message.toolCalls.map((call) => call.arguments.length).join();
  return [message.content.length, message.reasoning.length, calls, message.finish, message.trimmed, message.notes.length, message.stats?.decodeMs].join('/');
}

export const MessageView = memo<Props>(MessageBody, (a, b) => {
  return (
    a.message === b.message && a.version === b.version && a.isLast === b.isLast && a.busy === b.busy &&
    a.siblings.length === b.siblings.length
  );
});

function MessageBody(props: Props) {
  const { message } = props;
  if (message.role === 'user') return <UserMessage {...props} />;
  if (message.role === 'tool') return <ToolResult message={message} />;
  return <Answer {...props} />;
}

function UserMessage(props: Props) {
  const { app, message } = props;
  const [editing, setEditing] = useState(false);
  return (
    <article class={message.trimmed ? 'message user trimmed' : 'message user'} aria-label="You">
      {editing ? (
        <Editor
          text={message.content}
          onCancel={() => setEditing(false)}
          onSave={(text) => {
            setEditing(false);
            app.edit(message.id, text);
          }}
        />
      ) : (
        <div class="bubble">{message.content}</div>
      )}
      {!editing && (
        <div class="message-actions">
          <Branches {...props} />
          <CopyButton text={message.content} label="Copy message" />
          <button type="button" class="icon-button" aria-label="Edit message" title="Edit" disabled={props.busy} onClick={() => setEditing(true)}>
            <Icon name="edit" />
          </button>
        </div>
      )}
    </article>
  );
}

function Editor({ text, onSave, onCancel }: { text: string; onSave: (text: string) => void; onCancel: () => void }) {
  const [value, setValue] = useState(text);
  const box = useAutosize(value);
  useEffect(() => box.current?.focus(), []);
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        if (value.trim() !== '') onSave(value);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onCancel();
        }
      }}
    >
      <textarea ref={box} aria-label="Edit your message" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      <div class="dialog-actions">
        <button type="button" class="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" class="button primary" disabled={value.trim() === ''}>
          Send as new branch
        </button>
      </div>
    </form>
  );
}

function Branches({ app, message, siblings, busy }: Props) {
  if (siblings.length < 2) return null;
  const at = siblings.indexOf(message.id);
  const step = (by: number) => app.showBranch(siblings[at + by] ?? message.id);
  return (
    <div class="branches" role="group" aria-label="Branches">
      <button type="button" class="icon-button" aria-label="Previous branch" disabled={busy || at === 0} onClick={() => step(-1)}>
        <Icon name="previous" />
      </button>
      <span>
        <span class="visually-hidden">Branch </span>
        {at + 1} / {siblings.length}
      </span>
      <button type="button" class="icon-button" aria-label="Next branch" disabled={busy || at === siblings.length - 1} onClick={() => step(1)}>
        <Icon name="next" />
      </button>
    </div>
  );
}

function Answer(props: Props) {
  const { app, message } = props;
  const writing = message.finish === 'writing';
  const silent = message.content === '' && message.reasoning === '' && message.toolCalls.length === 0;
  return (
    <article class={message.trimmed ? 'message answer trimmed' : 'message answer'} aria-label="Answer" aria-busy={writing}>
      {message.reasoning !== '' && <Thinking text={message.reasoning} live={writing && message.content === '' && message.toolCalls.length === 0} />}
      {message.content !== '' && <Markdown text={message.content} />}
      {message.toolCalls.map((call, i) => (
        <ToolCallView key={i} call={call} />
      ))}
      {writing && silent && (
        <p class="waiting" role="img" aria-label="Waiting for the first token">
          <span /> <span /> <span />
        </p>
      )}
      {message.notes.map((note) => (
        <p key={note} class="end-note">
          {note}
        </p>
      ))}
      <EndNote message={message} silent={silent} />
      {message.error && <ErrorNote app={app} message={message} />}
      {message.finish === 'tool_calls' && props.isLast && !props.busy && <ToolResultForm key={message.id} app={app} message={message} />}
      <div class="message-actions">
        {!writing && <Branches {...props} />}
        {message.content !== '' && !writing && <CopyButton text={message.content} label="Copy answer" />}
        {!writing && !message.error && (
          <button type="button" class="icon-button" aria-label="Retry" title="Retry as a new branch" disabled={props.busy} onClick={() => void app.retry(message.id)}>
            <Icon name="retry" />
          </button>
        )}
        <StatsLine message={message} />
      </div>
    </article>
  );
}

// Folded, but its last lines are seen while they come; one click opens it.
function Thinking({ text, live }: { text: string; live: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <div class={live ? 'thinking live' : 'thinking'}>
      <button type="button" class="thinking-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class={open ? 'fold open' : 'fold'}>
          <Icon name="fold" />
        </span>
        {live ? 'Thinking…' : 'Thinking'}
      </button>
      {open && <div class="thinking-text">{text}</div>}
      {!open && live && (
        <div class="thinking-peek">
          <div>{text.slice(-400)}</div>
        </div>
      )}
    </div>
  );
}

function prettyJson(text: string): string {
  const value = parseJson(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

function ToolCallView({ call }: { call: ToolCall }) {
  return (
    <details class="tool">
      <summary>
        <Icon name="tool" />
        <span>
          Tool call: <code>{call.name || 'unnamed'}</code>
        </span>
      </summary>
      <pre tabIndex={0} role="group" aria-label="Arguments">
        <code>{prettyJson(call.arguments)}</code>
      </pre>
    </details>
  );
}

function ToolResult({ message }: { message: Message }) {
  return (
    <article class={message.trimmed ? 'message trimmed' : 'message'} aria-label="Tool result">
      <details class="tool">
        <summary>
          <Icon name="tool" /> Tool result
        </summary>
        <pre tabIndex={0} role="group" aria-label="Result">
          <code>{message.content}</code>
        </pre>
      </details>
    </article>
  );
}

// The page runs no tools; whoever reads can answer for one.
function ToolResultForm({ app, message }: { app: App; message: Message }) {
  const [results, setResults] = useState<string[]>(message.toolCalls.map(() => ''));
  return (
    <form
      class="tool-form"
      onSubmit={(event) => {
        event.preventDefault();
        app.sendToolResults(message.id, results);
      }}
    >
      {message.toolCalls.map((call, i) => (
        <label key={i}>
          Result of {call.name}
          <textarea
            rows={2}
            value={results[i]}
            onInput={(event) => setResults(results.map((old, j) => (i === j ? event.currentTarget.value : old)))}
          />
        </label>
      ))}
      <button type="submit" class="button">
        Send {results.length === 1 ? 'the result' : 'the results'}
      </button>
    </form>
  );
}

function EndNote({ message, silent }: { message: Message; silent: boolean }) {
  if (message.finish === 'length') return <p class="end-note">Cut: the longest answer or the end of the context was reached.</p>;
  if (message.finish === 'stopped') return <p class="end-note">{silent ? 'Stopped before the first word.' : 'Stopped.'}</p>;
  if (message.finish === 'stop' && silent) return <p class="end-note">The answer is empty.</p>;
  return null;
}

function ErrorNote({ app, message }: { app: App; message: Message }) {
  const [trimFailed, setTrimFailed] = useState(false);
  const facts = message.error;
  if (!facts) return null;
  const full = isContextFull(facts);
  return (
    <div class="error-note">
      <p>
        <strong>{full ? 'The context is full.' : facts.status > 0 ? `Error ${facts.status}.` : 'Error.'}</strong> {facts.message}
      </p>
      {full && facts.promptTokens !== undefined && facts.contextTokens !== undefined && (
        <p>
          {facts.promptTokens.toLocaleString('en')} tokens to read, room for {facts.contextTokens.toLocaleString('en')}.
        </p>
      )}
      {facts.retryAfterSeconds !== undefined && <p>The server asks to wait {facts.retryAfterSeconds} s.</p>}
      {trimFailed && <p>Only the last message is left, and it alone is too long.</p>}
      <div class="dialog-actions">
        {full && !trimFailed && (
          <button type="button" class="button primary" onClick={() => setTrimFailed(!app.trimOldest(message.id))}>
            Trim oldest and retry
          </button>
        )}
        <button type="button" class="button" disabled={app.isBusy()} onClick={() => void app.retry(message.id)}>
          Try again
        </button>
      </div>
    </div>
  );
}

// undefined while there is too little to divide.
export function tokensPerSecond(stats: Stats): number | undefined {
  if (stats.completionTokens < 2 || stats.decodeMs <= 0) return undefined;
  return (stats.completionTokens - 1) / (stats.decodeMs / 1000); // the first token ends the waiting
}

function StatsLine({ message }: { message: Message }) {
  const { stats } = message;
  if (!stats) return null;
  const speed = tokensPerSecond(stats);
  const counted = stats.promptTokens > 0; // else the number of chunks
  const parts = [`${counted ? '' : '≈ '}${stats.completionTokens.toLocaleString('en')} tokens`];
  if (speed !== undefined) parts.push(`${counted ? '' : '≈ '}${speed < 100 ? speed.toFixed(1) : speed.toFixed(0)} tokens/s`);
  if (message.finish !== 'writing') parts.push(`first after ${(stats.firstMs / 1000).toFixed(1)} s`);
  return (
    <span class="stats" title={message.model}>
      {parts.join(' · ')}
    </span>
  );
}
