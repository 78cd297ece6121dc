// SPDX-License-Identifier: Apache-2.0
import { path } from '../chat/conversation';
import type { App } from '../store/app';
import type { Theme } from '../store/preferences';
import { Icon } from './icon';

interface Props {
  app: App;
  sidebarOpen: boolean;
  onMenu: () => void;
  onSettings: () => void;
  onImportModel: () => void;
}

const kNextTheme: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
const kThemeIcon = { system: 'system', light: 'sun', dark: 'moon' } as const;

export function Header({ app, sidebarOpen, onMenu, onSettings, onImportModel }: Props) {
  return (
    <header class="header">
      <button type="button" class="icon-button menu-button" aria-label="Conversations" aria-expanded={sidebarOpen} aria-controls="sidebar" onClick={onMenu}>
        <Icon name="menu" />
      </button>
      <h1 class="visually-hidden">Hone chat: {app.current.title || 'new conversation'}</h1>
      <ModelPicker app={app} />
      <button type="button" class="icon-button" aria-label="Import a model" title="Import a model from the server's disk" onClick={onImportModel}>
        <Icon name="plus" />
      </button>
      <span class="header-gap" />
      <ContextMeter app={app} />
      <button
        type="button"
        class="icon-button"
        aria-label={`Colours: ${app.theme}. Change to ${kNextTheme[app.theme]}`}
        title={`Colours: ${app.theme}`}
        onClick={() => app.setTheme(kNextTheme[app.theme])}
      >
        <Icon name={kThemeIcon[app.theme]} />
      </button>
      <button type="button" class="icon-button" aria-label="Settings" title="Settings" onClick={onSettings}>
        <Icon name="settings" />
      </button>
    </header>
  );
}

function ModelPicker({ app }: { app: App }) {
  const { model } = app.current;
  const known = app.models?.some((entry) => entry.id === model);
  return (
    <div class="model-picker">
      <select aria-label="Model" value={model} disabled={app.isBusy()} onChange={(event) => app.setModel(event.currentTarget.value)}>
        {model === '' && <option value="">No model</option>}
        {!app.models && model !== '' && <option value={model}>{model}</option>}
        {known === false && model !== '' && <option value={model}>{model} (not on this server)</option>}
        {app.models?.map((entry) => (
          <option key={entry.id} value={entry.id}>
            {entry.id}
          </option>
        ))}
      </select>
    </div>
  );
}

// Tokens of the shown branch, as the server counted them for the last answer; 0 if it did not yet.
export function usedTokens(app: App): number {
  const last = path(app.current).findLast(({ message }) => message.stats && message.stats.promptTokens > 0)?.message;
  return last?.stats ? last.stats.promptTokens + last.stats.completionTokens : 0;
}

function ContextMeter({ app }: { app: App }) {
  const room = app.contextTokens();
  const used = usedTokens(app);
  if (!room || used === 0) return null;
  const share = Math.min(used / room, 1);
  const text = `${used.toLocaleString('en')} of ${room.toLocaleString('en')} tokens of the context used`;
  return (
    <div class={share > 0.9 ? 'meter nearly-full' : 'meter'} role="meter" aria-label="Context" aria-valuemin={0} aria-valuemax={room} aria-valuenow={used} aria-valuetext={text} title={text}>
      <span class="meter-track" aria-hidden="true">
        <span class="meter-fill" style={{ width: `${share * 100}%` }} />
      </span>
      <span class="meter-text" aria-hidden="true">
        {Math.round(share * 100)} %
      </span>
    </div>
  );
}
