// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { App } from '../store/app';
import { Icon } from './icon';

// On a touch screen Enter makes a new line, as everywhere on phones.
function enterSends(): boolean {
  return !window.matchMedia('(pointer: coarse)').matches;
}

// Grows with its text, up to the height that the style sheet allows.
export function useAutosize(text: string) {
  const ref = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const box = ref.current;
    if (!box) return;
    box.style.height = 'auto';
    box.style.height = `${box.scrollHeight}px`;
  }, [text]);
  return ref;
}

export function Composer({ app }: { app: App }) {
  const id = app.current.id;
  const [text, setText] = useState('');
  const box = useAutosize(text);
  const busy = app.isBusy();
  useEffect(() => {
    setText(app.draft);
    app.draft = '';
    if (enterSends()) box.current?.focus();
  }, [id]);

  const send = () => {
    if (busy || text.trim() === '') return;
    app.send(text);
    setText('');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || !enterSends()) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="visually-hidden" for="message-box">
        Message
      </label>
      <textarea
        id="message-box"
        ref={box}
        rows={1}
        value={text}
        placeholder="Write a message"
        aria-describedby="message-help"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {busy ? (
        <button type="button" class="send-button" aria-label="Stop" title="Stop (Esc)" onClick={() => app.stop()}>
          <Icon name="stop" />
        </button>
      ) : (
        <button type="submit" class="send-button" aria-label="Send" title="Send" disabled={text.trim() === ''}>
          <Icon name="send" />
        </button>
      )}
      <p id="message-help" class="composer-help">
        {enterSends() ? 'Enter sends, Shift+Enter makes a new line, Esc stops.' : 'Answers can be wrong.'}
      </p>
    </form>
  );
}
