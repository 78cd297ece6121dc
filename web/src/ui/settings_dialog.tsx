// SPDX-License-Identifier: Apache-2.0
import { useId, useState } from 'preact/hooks';
import { kNumberFields, settingsFaults, type Settings } from '../chat/settings';
import type { App } from '../store/app';
import { Dialog } from './dialog';

export function SettingsDialog({ app, onClose }: { app: App; onClose: () => void }) {
  const [settings, setSettings] = useState<Settings>({ ...app.current.settings });
  const [forNew, setForNew] = useState(false);
  const faults = settingsFaults(settings);
  const change = (name: keyof Settings) => (value: string) => setSettings({ ...settings, [name]: value });
  return (
    <Dialog title="Settings of this conversation" wide onClose={onClose}>
      <form
        class="settings"
        onSubmit={(event) => {
          event.preventDefault();
          if (Object.keys(faults).length > 0) return;
          app.setSettings(settings, forNew);
          onClose();
        }}
      >
        <TextField label="System prompt" rows={4} value={settings.system} onInput={change('system')} />
        <label class="field">
          <span>Thinking</span>
          <select value={settings.thinking} onChange={(event) => change('thinking')(event.currentTarget.value)}>
            <option value="">As the model does it</option>
            <option value="none">Off</option>
            <option value="low">Short</option>
            <option value="medium">Medium</option>
            <option value="high">Long</option>
          </select>
        </label>
        <fieldset>
          <legend>Sampling</legend>
          <p class="quiet">An empty field means the server's default.</p>
          <div class="field-grid">
            {kNumberFields.map((field) => (
              <NumberInput key={field.name} label={field.label} value={settings[field.name]} fault={faults[field.name]} onInput={change(field.name)} />
            ))}
          </div>
          <TextField label="Stop at (one text per line)" rows={2} value={settings.stop} onInput={change('stop')} />
        </fieldset>
        <TextField label="Tools (JSON array of definitions)" rows={3} value={settings.tools} fault={faults.tools} mono onInput={change('tools')} />
        <label class="check">
          <input type="checkbox" checked={forNew} onChange={(event) => setForNew(event.currentTarget.checked)} />
          Use for new conversations, too
        </label>
        <div class="dialog-actions">
          <a class="licences" href="licences.txt" target="_blank">
            Licences of this page
          </a>
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={Object.keys(faults).length > 0}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  label: string;
  value: string;
  fault?: string | undefined;
  onInput: (value: string) => void;
}

function NumberInput({ label, value, fault, onInput }: FieldProps) {
  const id = useId();
  return (
    <label class="field">
      <span>{label}</span>
      <input
        inputMode="decimal"
        value={value}
        placeholder="default"
        aria-invalid={fault !== undefined}
        aria-describedby={fault ? id : undefined}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {fault && <span id={id} class="fault">{fault}</span>}
    </label>
  );
}

function TextField({ label, value, fault, rows, mono, onInput }: FieldProps & { rows: number; mono?: boolean }) {
  const id = useId();
  return (
    <label class="field">
      <span>{label}</span>
      <textarea
        rows={rows}
        class={mono ? 'mono' : undefined}
        value={value}
        aria-invalid={fault !== undefined}
        aria-describedby={fault ? id : undefined}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {fault && <span id={id} class="fault">{fault}</span>}
    </label>
  );
}
