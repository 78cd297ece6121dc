// SPDX-License-Identifier: Apache-2.0
import { useMoment } from './hooks';
import { Icon } from './icon';

// Also works where the page is not a secure context, such as a phone on http://192.168.…
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext && navigator.clipboard) return navigator.clipboard.writeText(text);
  const box = document.createElement('textarea');
  box.value = text;
  box.className = 'visually-hidden';
  document.body.append(box);
  box.select();
  const copied = document.execCommand('copy');
  box.remove();
  if (!copied) throw new Error('the browser did not copy');
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, show] = useMoment();
  const copy = () => {
    copyText(text).then(show, (error: unknown) => console.warn('copying failed', error));
  };
  return (
    <button type="button" class="icon-button" aria-label={copied ? 'Copied' : label} title={label} onClick={copy}>
      <Icon name={copied ? 'check' : 'copy'} />
    </button>
  );
}
