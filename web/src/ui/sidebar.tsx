// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from 'preact/hooks';
import type { App } from '../store/app';
import type { Entry } from '../store/history';
import { Dialog } from './dialog';
import { Icon } from './icon';

const kSearchDelayMs = 150;

export function Sidebar({ app, onPick, onClose }: { app: App; onPick: () => void; onClose: () => void }) {
  const [query, setQuery] = useState('');
  const [expanded, setExpanded] = useState('');
  const [deleting, setDeleting] = useState<Entry>();
  const files = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => void app.search(query), kSearchDelayMs);
    return () => clearTimeout(timer);
  }, [query]);
  const entries = app.found ? app.entries.filter((entry) => app.found?.has(entry.id)) : app.entries;
  return (
    <>
      <div class="brand">
        <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
          <path d="M9 24 22 7l1 9-8 8z" />
        </svg>
        <span>Hone</span>
        <button type="button" class="icon-button sidebar-close" aria-label="Close conversations" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <button
        type="button"
        class="button new-chat"
        onClick={() => {
          app.newChat();
          onPick();
        }}
      >
        <Icon name="plus" /> New chat
      </button>
      <label class="search">
        <span class="visually-hidden">Search conversations</span>
        <Icon name="search" />
        <input type="search" value={query} placeholder="Search" onInput={(event) => setQuery(event.currentTarget.value)} />
      </label>
      <nav aria-label="Conversations" class="conversations">
        {entries.length === 0 && <p class="quiet">{app.found ? 'Nothing found.' : 'No conversations yet.'}</p>}
        <ul>
          {entries.map((entry) => (
            <Item
              key={entry.id}
              app={app}
              entry={entry}
              expanded={expanded === entry.id}
              onExpand={() => setExpanded(expanded === entry.id ? '' : entry.id)}
              onPick={onPick}
              onDelete={() => setDeleting(entry)}
            />
          ))}
        </ul>
      </nav>
      <div class="sidebar-foot">
        <button type="button" class="button quiet-button" onClick={() => files.current?.click()}>
          <Icon name="upload" /> Import
        </button>
        <button type="button" class="button quiet-button" disabled={app.entries.length === 0} onClick={() => void app.exportAll()}>
          <Icon name="download" /> Export all
        </button>
        <input
          ref={files}
          type="file"
          class="visually-hidden"
          tabIndex={-1}
          aria-label="Files to import"
          accept=".json,.md,application/json,text/markdown"
          multiple
          onChange={(event) => {
            const input = event.currentTarget;
            void app.importFiles([...(input.files ?? [])]).then(() => (input.value = ''));
          }}
        />
      </div>
      {deleting && (
        <Dialog title="Delete conversation?" onClose={() => setDeleting(undefined)}>
          <p>“{deleting.title}” is removed from this browser. There is no way back.</p>
          <div class="dialog-actions">
            <button type="button" class="button" onClick={() => setDeleting(undefined)}>
              Keep
            </button>
            <button
              type="button"
              class="button danger"
              onClick={() => {
                void app.remove(deleting.id);
                setDeleting(undefined);
              }}
            >
              Delete
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

interface ItemProps {
  app: App;
  entry: Entry;
  expanded: boolean;
  onExpand: () => void;
  onPick: () => void;
  onDelete: () => void;
}

function Item({ app, entry, expanded, onExpand, onPick, onDelete }: ItemProps) {
  const [renaming, setRenaming] = useState(false);
  const current = app.current.id === entry.id;
  const title = entry.title || 'Untitled';
  return (
    <li class={current ? 'conversation current' : 'conversation'}>
      {renaming ? (
        <Rename
          title={title}
          onDone={(name) => {
            setRenaming(false);
            if (name !== undefined) void app.rename(entry.id, name);
          }}
        />
      ) : (
        <div class="conversation-row">
          <button
            type="button"
            class="conversation-title"
            aria-current={current ? 'page' : undefined}
            onClick={() => {
              void app.open(entry.id);
              onPick();
            }}
          >
            {app.isBusy(entry.id) && <span class="busy-dot" role="img" aria-label="being answered" />}
            {title}
          </button>
          <button type="button" class="icon-button" aria-expanded={expanded} aria-label={`Actions for ${title}`} onClick={onExpand}>
            <Icon name="more" />
          </button>
        </div>
      )}
      {expanded && !renaming && (
        <div class="conversation-actions">
          <button type="button" onClick={() => setRenaming(true)}>Rename</button>
          <button type="button" onClick={() => void app.exportOne(entry.id, 'json')}>Export JSON</button>
          <button type="button" onClick={() => void app.exportOne(entry.id, 'md')}>Export Markdown</button>
          <button type="button" class="danger-text" onClick={onDelete}>Delete</button>
        </div>
      )}
    </li>
  );
}

function Rename({ title, onDone }: { title: string; onDone: (name?: string) => void }) {
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => ref.current?.select(), []);
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(ref.current?.value ?? '');
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        onDone();
      }}
    >
      <input ref={ref} aria-label="New title" defaultValue={title} maxLength={200} />
      <button type="submit" class="icon-button" aria-label="Save title">
        <Icon name="check" />
      </button>
    </form>
  );
}
