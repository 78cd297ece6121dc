// SPDX-License-Identifier: Apache-2.0
import { useState } from 'preact/hooks';
import type { App } from '../store/app';
import { usedTokens } from './header';
import { Icon } from './icon';

// What the page has to say above the messages.
export function Banners({ app }: { app: App }) {
  return (
    <div class="banners">
      {app.keyNeeded && <KeyForm app={app} />}
      {app.modelsFault && !app.keyNeeded && (
        <div class="banner" role="alert">
          <p>The list of models could not be read. {app.modelsFault.message}</p>
          <button type="button" class="button" onClick={() => void app.loadModels()}>
            Try again
          </button>
        </div>
      )}
      {app.notice !== '' && (
        <div class="banner" role="status">
          <p>{app.notice}</p>
          <button type="button" class="icon-button" aria-label="Close notice" onClick={() => app.closeNotice()}>
            <Icon name="close" />
          </button>
        </div>
      )}
    </div>
  );
}

function KeyForm({ app }: { app: App }) {
  const [key, setKey] = useState('');
  const [refused, setRefused] = useState(false);
  const submit = async () => {
    await app.setApiKey(key.trim());
    setRefused(app.keyNeeded);
  };
  return (
    <form
      class="banner"
      onSubmit={(event) => {
        event.preventDefault();
        if (key.trim() !== '') void submit();
      }}
    >
      <label class="field">
        <span>This server asks for an API key. It is kept until this tab is closed.</span>
        <input type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <span role="alert">{refused && <span class="fault">The server refused this key.</span>}</span>
      </label>
      <button type="submit" class="button primary" disabled={key.trim() === ''}>
        Use key
      </button>
    </form>
  );
}

// Shown before the context is full, so that there is a way on.
export function ContextBanner({ app }: { app: App }) {
  const [nothingLeft, setNothingLeft] = useState(false);
  const room = app.contextTokens();
  const used = usedTokens(app);
  if (!room || used / room < 0.9 || app.isBusy()) return null;
  return (
    <div class="banner context-banner" role="status">
      <p>
        {used.toLocaleString('en')} of {room.toLocaleString('en')} tokens are used: the next answer may not fit.
        {nothingLeft && ' Nothing older is left to trim.'}
      </p>
      <button type="button" class="button" onClick={() => setNothingLeft(!app.trimOldest())}>
        Trim oldest
      </button>
    </div>
  );
}
