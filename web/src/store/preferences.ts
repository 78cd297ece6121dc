// SPDX-License-Identifier: Apache-2.0
import { parseJson } from '../api/json';
import { readSettings, type Settings } from '../chat/settings';

// Small things that this browser remembers. A browser that keeps nothing gives the defaults.
export type Theme = 'system' | 'light' | 'dark';

function read(storage: () => Storage, name: string): string {
  try {
    return storage().getItem(name) ?? '';
  } catch {
    return '';
  }
}
function write(storage: () => Storage, name: string, value: string) {
  try {
    if (value === '') storage().removeItem(name);
    else storage().setItem(name, value);
  } catch {
    // Storage is switched off or full: the choice holds until the page is closed.
  }
}
const local = () => window.localStorage;
const session = () => window.sessionStorage;

export function loadTheme(): Theme {
  const theme = read(local, 'hone.theme');
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}
export function saveTheme(theme: Theme) {
  write(local, 'hone.theme', theme === 'system' ? '' : theme);
}

export function loadModel(): string {
  return read(local, 'hone.model');
}
export function saveModel(model: string) {
  write(local, 'hone.model', model);
}

// Settings of new conversations.
export function loadDefaults(): Settings {
  return readSettings(parseJson(read(local, 'hone.settings')));
}
export function saveDefaults(settings: Settings) {
  write(local, 'hone.settings', JSON.stringify(settings));
}

// The key is gone when the tab is closed.
export function loadApiKey(): string {
  return read(session, 'hone.apiKey');
}
export function saveApiKey(key: string) {
  write(session, 'hone.apiKey', key);
}
