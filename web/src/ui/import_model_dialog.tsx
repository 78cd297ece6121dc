// SPDX-License-Identifier: Apache-2.0
import { useState } from 'preact/hooks';
import type { ImportRequest } from '../api/client';
import { factsOf, type ErrorFacts } from '../api/errors';
import type { App } from '../store/app';
import { Dialog } from './dialog';

const kAccelerators = ['cpu', 'gpu', 'npu'];

// What went wrong, and whether it is the server's rule or the form's content.
export function importFaultText(facts: ErrorFacts): string {
  if (facts.status === 401) return `The server asks for an API key: ${facts.message}`;
  if (facts.status === 403) return `This server does not allow importing models: ${facts.message}`;
  if (facts.status === 404 && facts.code === undefined && facts.param === undefined) {
    return `This server cannot import models: ${facts.message}`;
  }
  if (facts.status === 405 || facts.status === 501) return `This server cannot import models: ${facts.message}`;
  return facts.message;
}

export function ImportModelDialog({ app, onClose }: { app: App; onClose: () => void }) {
  const [path, setPath] = useState('');
  const [accelerators, setAccelerators] = useState(['cpu']);
  const [context, setContext] = useState('');
  const [thinking, setThinking] = useState('');
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState('');

  const contextRight = context.trim() === '' || /^[1-9]\d{0,8}$/.test(context.trim());
  const ready = path.trim() !== '' && accelerators.length > 0 && contextRight && !busy;
  const submit = async () => {
    const request: ImportRequest = { path: path.trim(), accelerators };
    if (context.trim() !== '') request.context = Number(context);
    if (thinking !== '') request.thinking = thinking === 'on';
    setBusy(true);
    setFault('');
    try {
      await app.importModel(request);
      onClose();
    } catch (error) {
      setFault(importFaultText(factsOf(error)));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Import a model" onClose={onClose}>
      <form
        class="settings"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) void submit();
        }}
      >
        <p class="quiet">A bundle (.litertlm) on the disk of the machine where the server runs. Nothing is uploaded.</p>
        <label class="field">
          <span>Path on the server</span>
          <input value={path} placeholder="/models/m.litertlm" spellcheck={false} autocomplete="off" onInput={(event) => setPath(event.currentTarget.value)} />
        </label>
        <fieldset>
          <legend>Accelerators</legend>
          <div class="checks">
            {kAccelerators.map((name) => (
              <label class="check" key={name}>
                <input
                  type="checkbox"
                  checked={accelerators.includes(name)}
                  onChange={(event) =>
                    setAccelerators(kAccelerators.filter((other) => (other === name ? event.currentTarget.checked : accelerators.includes(other))))
                  }
                />
                {name.toUpperCase()}
              </label>
            ))}
          </div>
        </fieldset>
        <div class="field-grid">
          <label class="field">
            <span>Context (tokens)</span>
            <input inputMode="numeric" value={context} placeholder="as the bundle says" aria-invalid={!contextRight} onInput={(event) => setContext(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Thinking</span>
            <select value={thinking} onChange={(event) => setThinking(event.currentTarget.value)}>
              <option value="">As the bundle says</option>
              <option value="on">On</option>
              <option value="off">Off</option>
            </select>
          </label>
        </div>
        <div role="alert">{fault && <p class="error-note">{fault}</p>}</div>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={!ready}>
            {busy ? 'Importing…' : 'Import'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
