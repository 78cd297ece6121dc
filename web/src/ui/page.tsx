// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from 'preact/hooks';
import { path } from '../chat/conversation';
import type { App } from '../store/app';
import { Announcer } from './announcer';
import { Banners, ContextBanner } from './banners';
import { Composer } from './composer';
import { Header } from './header';
import { ImportModelDialog } from './import_model_dialog';
import { SettingsDialog } from './settings_dialog';
import { Sidebar } from './sidebar';
import { Thread } from './thread';

const kNarrow = '(max-width: 760px)';

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => window.matchMedia(query).matches);
  useEffect(() => {
    const media = window.matchMedia(query);
    const update = () => setMatches(media.matches);
    media.addEventListener('change', update);
    return () => media.removeEventListener('change', update);
  }, []);
  return matches;
}

export function Page({ app }: { app: App }) {
  const [, setChanges] = useState(0);
  const [dialog, setDialog] = useState<'' | 'settings' | 'import'>('');
  const narrow = useMedia(kNarrow);
  const dark = useMedia('(prefers-color-scheme: dark)');
  const [sidebarOpen, setSidebarOpen] = useState(!narrow);
  useEffect(() => {
    app.onChange = () => setChanges((n) => n + 1);
    void app.start();
  }, [app]);
  useEffect(() => setSidebarOpen(!narrow), [narrow]);
  useEffect(() => {
    document.documentElement.dataset.theme = app.theme === 'system' ? (dark ? 'dark' : 'light') : app.theme;
  }, [app.theme, dark]);
  useEffect(() => {
    document.title = app.current.title ? `${app.current.title} · Hone` : 'Hone';
  }, [app.current.title]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
      if (narrow && sidebarOpen) setSidebarOpen(false);
      else app.stop();
    };
    window.addEventListener('keydown', onKeyDown);
    return () => window.removeEventListener('keydown', onKeyDown);
  }, [app, narrow, sidebarOpen]);

  const overlay = narrow && sidebarOpen; // covers the rest
  const wasOverlay = useRef(false);
  useEffect(() => {
    // What had the focus is covered or gone: the button that opened the list, or one in the list.
    if (overlay) document.querySelector<HTMLElement>('.sidebar-close')?.focus();
    else if (wasOverlay.current) document.querySelector<HTMLElement>('.menu-button')?.focus();
    wasOverlay.current = overlay;
  }, [overlay]);
  return (
    <div class={sidebarOpen ? 'page with-sidebar' : 'page'}>
      <a class="skip-link" href="#message-box" onClick={skipToBox}>
        Skip to the message box
      </a>
      <aside id="sidebar" class="sidebar" aria-label="History" inert={!sidebarOpen}>
        <Sidebar app={app} onPick={() => narrow && setSidebarOpen(false)} onClose={() => setSidebarOpen(false)} />
      </aside>
      {overlay && <div class="scrim" onClick={() => setSidebarOpen(false)} />}
      <div class="main-column" inert={overlay}>
        <Header
          app={app}
          sidebarOpen={sidebarOpen}
          onMenu={() => setSidebarOpen(!sidebarOpen)}
          onSettings={() => setDialog('settings')}
          onImportModel={() => setDialog('import')}
        />
        <main class="main">
          <Banners app={app} />
          <Thread app={app} />
          <div class="composer-area">
            <ContextBanner app={app} key={app.current.id} />
            <Composer app={app} />
          </div>
        </main>
      </div>
      <Announcer message={path(app.current).at(-1)?.message} />
      {dialog === 'settings' && <SettingsDialog app={app} onClose={() => setDialog('')} />}
      {dialog === 'import' && <ImportModelDialog app={app} onClose={() => setDialog('')} />}
    </div>
  );
}

// The address keeps naming the conversation.
function skipToBox(event: MouseEvent) {
  event.preventDefault();
  document.getElementById('message-box')?.focus();
}
