// SPDX-License-Identifier: Apache-2.0
import { asObject, asString, parseJson, type JsonObject } from '../api/json';

// What a user chose for a conversation. An empty text means: the server's default, not sent.
export interface Settings {
  system: string;
  thinking: string; // reasoning_effort: "", "none", "low", "medium", "high"
  temperature: string;
  topP: string;
  topK: string;
  minP: string;
  repetitionPenalty: string;
  presencePenalty: string;
  frequencyPenalty: string;
  maxTokens: string;
  seed: string;
  stop: string; // one per line
  tools: string; // a JSON array of tool definitions
}

export const kDefaultSettings: Settings = {
  system: '',
  thinking: '',
  temperature: '',
  topP: '',
  topK: '',
  minP: '',
  repetitionPenalty: '',
  presencePenalty: '',
  frequencyPenalty: '',
  maxTokens: '',
  seed: '',
  stop: '',
  tools: '',
};

export interface NumberField {
  name: keyof Settings;
  parameter: string; // of the API
  label: string;
  min: number;
  max: number;
  integer: boolean;
}

export const kNumberFields: NumberField[] = [
  { name: 'temperature', parameter: 'temperature', label: 'Temperature', min: 0, max: 2, integer: false },
  { name: 'topP', parameter: 'top_p', label: 'Top p', min: 0, max: 1, integer: false },
  { name: 'topK', parameter: 'top_k', label: 'Top k', min: 0, max: 1_000_000, integer: true },
  { name: 'minP', parameter: 'min_p', label: 'Min p', min: 0, max: 1, integer: false },
  { name: 'repetitionPenalty', parameter: 'repetition_penalty', label: 'Repetition penalty', min: 0.01, max: 10, integer: false },
  { name: 'presencePenalty', parameter: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2, integer: false },
  { name: 'frequencyPenalty', parameter: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2, integer: false },
  { name: 'maxTokens', parameter: 'max_tokens', label: 'Longest answer (tokens)', min: 1, max: 10_000_000, integer: true },
  { name: 'seed', parameter: 'seed', label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, integer: true },
];

function numberFault(field: NumberField, text: string): string | undefined {
  const value = Number(text);
  const fits = Number.isFinite(value) && value >= field.min && value <= field.max;
  if (fits && (!field.integer || Number.isInteger(value))) return undefined;
  return `${field.label}: ${field.integer ? 'a whole number' : 'a number'} from ${field.min} to ${field.max}`;
}

function toolsFault(text: string): string | undefined {
  const tools = parseJson(text);
  const right = Array.isArray(tools) && tools.every((tool) => asString(asObject(asObject(tool)?.function)?.name));
  return right ? undefined : 'Tools: a JSON array of {"type": "function", "function": {"name": …}}';
}

// One sentence for each field that cannot be sent.
export function settingsFaults(settings: Settings): Partial<Record<keyof Settings, string>> {
  const faults: Partial<Record<keyof Settings, string>> = {};
  for (const field of kNumberFields) {
    const text = settings[field.name].trim();
    const fault = text === '' ? undefined : numberFault(field, text);
    if (fault) faults[field.name] = fault;
  }
  const fault = settings.tools.trim() === '' ? undefined : toolsFault(settings.tools);
  if (fault) faults.tools = fault;
  return faults;
}

// The request fields that differ from the server's defaults. `settings` has no faults.
export function settingsParameters(settings: Settings): JsonObject {
  const out: JsonObject = {};
  for (const field of kNumberFields) {
    const text = settings[field.name].trim();
    if (text !== '') out[field.parameter] = Number(text);
  }
  if (settings.thinking !== '') out.reasoning_effort = settings.thinking;
  const stop = settings.stop.split('\n').filter((line) => line !== '');
  if (stop.length > 0) out.stop = stop;
  if (settings.tools.trim() !== '') out.tools = parseJson(settings.tools);
  return out;
}

// Settings from something stored or imported: unknown fields are left out, wrong types are defaults.
export function readSettings(value: unknown): Settings {
  const object = asObject(value) ?? {};
  const out = { ...kDefaultSettings };
  for (const name of Object.keys(out) as (keyof Settings)[]) out[name] = asString(object[name]) ?? '';
  if (!['', 'none', 'low', 'medium', 'high'].includes(out.thinking)) out.thinking = '';
  return out;
}
