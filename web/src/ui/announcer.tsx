// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Message } from '../chat/conversation';
import { plainText } from '../markdown/plain_text';

// The part of a growing text that is complete: up to its last empty line or end of a sentence.
export function completeLength(text: string): number {
  const paragraph = text.lastIndexOf('\n\n') + 2;
  const sentence = /^[^]*[.!?:](?=\s)/.exec(text)?.[0].length ?? 0;
  return Math.max(paragraph >= 2 ? paragraph : 0, sentence);
}

// Reads an answer to a screen reader while it comes, by sentences and not by tokens.
export function Announcer({ message }: { message: Message | undefined }) {
  const [lines, setLines] = useState<string[]>([]);
  const said = useRef({ id: '', chars: 0, thinking: false, done: true });
  useEffect(() => {
    if (!message) return;
    const state = said.current;
    const out: string[] = [];
    if (state.id !== message.id) {
      if (message.finish !== 'writing') return; // an old answer
      said.current = { id: message.id, chars: 0, thinking: false, done: false };
      setLines(['The model answers.']);
      return;
    }
    if (state.done) return;
    if (message.reasoning !== '' && message.content === '' && !state.thinking) {
      state.thinking = true;
      out.push('The model thinks.');
    }
    const done = message.finish !== 'writing';
    const rest = message.content.slice(state.chars);
    const length = done ? rest.length : completeLength(rest);
    const spoken = plainText(rest.slice(0, length)).trim();
    if (spoken !== '') out.push(spoken);
    state.chars += length;
    if (done) {
      state.done = true;
      out.push(message.finish === 'error' ? `Error: ${message.error?.message ?? ''}` : endText(message));
    }
    if (out.length > 0) setLines((before) => [...before, ...out].slice(-12));
  });
  return (
    <div class="visually-hidden" role="log" aria-live="polite" aria-label="Progress of the answer">
      {lines.map((line, i) => (
        <p key={`${i}/${line}`}>{line}</p>
      ))}
    </div>
  );
}

function endText(message: Message): string {
  return message.finish === 'stopped' ? 'Stopped.' : message.finish === 'length' ? 'The answer was cut: it is too long.' : 'The answer is complete.';
}
