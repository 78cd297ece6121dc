// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { path } from '../chat/conversation';
import type { App } from '../store/app';
import { Icon } from './icon';
import { MessageView, messageVersion } from './message';

const kNearEndPx = 80;

// The messages of the current branch. Follows the end while the reader is at the end.
export function Thread({ app }: { app: App }) {
  const frame = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [away, setAway] = useState(false);
  const entries = path(app.current);
  const lastTrimmed = entries.findLastIndex(({ message }) => message.trimmed);
  const busy = app.isBusy();

  const toEnd = () => frame.current?.scrollTo({ top: frame.current.scrollHeight });
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  });
  useEffect(() => {
    follows.current = true;
    setAway(false);
    toEnd();
  }, [app.current.id, entries.length]);

  const onScroll = () => {
    const box = frame.current;
    if (!box) return;
    follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < kNearEndPx;
    setAway(!follows.current);
  };
  return (
    <div class="thread-frame">
      <div class="thread" ref={frame} onScroll={onScroll}>
        <div class="thread-column">
          {entries.length === 0 && <Welcome app={app} />}
          {entries.map(({ message, siblings }, i) => (
            <div key={message.id} class="thread-entry">
              <MessageView
                app={app}
                message={message}
                siblings={siblings}
                isLast={i === entries.length - 1}
                busy={busy}
                version={messageVersion(message)}
              />
              {i === lastTrimmed && (
                <p class="trim-line">
                  Messages above are no longer sent to the model.{' '}
                  <button type="button" class="link-button" disabled={busy} onClick={() => app.sendTrimmedAgain()}>
                    Send them again
                  </button>
                </p>
              )}
            </div>
          ))}
        </div>
      </div>
      {away && (
        <button type="button" class="to-end" aria-label="Go to the end" title="Go to the end" onClick={toEnd}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

function Welcome({ app }: { app: App }) {
  return (
    <div class="welcome">
      <h2>What shall we work on?</h2>
      <p>{welcomeText(app)}</p>
    </div>
  );
}

function welcomeText(app: App): string {
  if (app.modelsFault) return 'The list of models could not be read; see above.';
  if (!app.models) return 'Reading the list of models…';
  if (app.current.model === '') return 'The server has no model yet. Import one from its disk.';
  return `${app.current.model} runs on your server. What you write goes there and nowhere else.`;
}
