// SPDX-License-Identifier: Apache-2.0
import { asArray, asObject, asString, parseJson } from '../api/json';
import { addMessage, newConversation, newMessage, path, titleFrom, type Conversation, type Message } from './conversation';
import { TransferError } from './transfer_json';

// A conversation as Markdown to read, with comments that let it be read back: each part begins with
// <!-- hone:KIND --> on a line of its own. Only the branch that is shown is written.
const kMarker = /^<!-- hone:(system|user|thinking|assistant|tool-calls|tool)(?: ([^\n]*?))? -->$/;

// A line of text that looks like a marker gets a backslash, and one that has it gets one more.
function protect(text: string): string {
  return text.replace(/^(\\*<!-- hone:)/gm, '\\$1');
}
function unprotect(text: string): string {
  return text.replace(/^\\(\\*<!-- hone:)/gm, '$1');
}

function part(kind: string, heading: string, text: string): string {
  return `<!-- hone:${kind} -->\n${heading}\n\n${protect(text)}\n\n`;
}

export function exportMarkdown(conversation: Conversation): string {
  let out = `# ${conversation.title.replace(/\s+/g, ' ')}\n\n`;
  if (conversation.settings.system !== '') out += part('system', '## System', conversation.settings.system);
  for (const { message } of path(conversation)) out += messageParts(message);
  return out;
}

function messageParts(message: Message): string {
  if (message.role === 'user') return part('user', '## User', message.content);
  if (message.role === 'tool') return part(`tool ${JSON.stringify(message.toolCallId)}`, '## Tool', message.content);
  let out = message.reasoning === '' ? '' : part('thinking', '## Thinking', message.reasoning);
  out += part('assistant', '## Assistant', message.content);
  if (message.toolCalls.length > 0) {
    out += part('tool-calls', '## Tool calls', JSON.stringify(message.toolCalls, null, 1));
  }
  return out;
}

// Reads what exportMarkdown wrote. Throws TransferError.
export function importMarkdown(text: string): Conversation {
  const lines = text.replace(/\r\n/g, '\n').split('\n');
  const out = newConversation();
  const title = /^# (.*)$/.exec(lines[0] ?? '')?.[1] ?? '';
  let parent = '';
  let reasoning = '';
  for (const { kind, detail, body } of readParts(lines)) {
    if (kind === 'system') {
      out.settings.system = body;
      continue;
    }
    if (kind === 'thinking') {
      reasoning = body;
      continue;
    }
    if (kind === 'tool-calls') {
      const last = out.messages.get(parent);
      if (last?.role !== 'assistant') throw new TransferError('the part "tool-calls" does not follow an answer');
      readToolCalls(last, body);
      continue;
    }
    const message = newMessage(kind === 'user' ? 'user' : kind === 'tool' ? 'tool' : 'assistant', parent, body);
    if (kind === 'tool') message.toolCallId = asString(parseJson(detail)) ?? '';
    if (kind === 'assistant') message.reasoning = reasoning;
    reasoning = '';
    addMessage(out, message);
    parent = message.id;
  }
  if (out.messages.size === 0) {
    throw new TransferError('the file has no part "<!-- hone:user -->"; expected Markdown that this page exported');
  }
  out.titleByUser = title !== '' && title !== out.title;
  if (title !== '') out.title = titleFrom(title) === out.title ? out.title : title;
  return out;
}

interface Part {
  kind: string;
  detail: string;
  body: string;
}

function readParts(lines: string[]): Part[] {
  const parts: Part[] = [];
  let begin = -1;
  const close = (end: number) => {
    const last = parts[parts.length - 1];
    // Behind the marker: heading, empty line, text, empty line.
    if (last) last.body = unprotect(lines.slice(begin + 3, Math.max(end - 1, begin + 3)).join('\n'));
  };
  lines.forEach((line, i) => {
    const match = kMarker.exec(line);
    if (!match) return;
    close(i);
    parts.push({ kind: match[1] ?? '', detail: match[2] ?? '', body: '' });
    begin = i;
  });
  // An export ends in an empty line; an editor may have taken it away.
  const numEmpty = lines.at(-1) !== '' ? 0 : lines.at(-2) !== '' ? 1 : 2;
  close(lines.length + 1 - numEmpty);
  return parts;
}

function readToolCalls(message: Message, body: string) {
  const calls = parseJson(body);
  if (!Array.isArray(calls)) throw new TransferError('the part "tool-calls" is not a JSON array');
  message.toolCalls = asArray(calls).map((call) => {
    const object = asObject(call) ?? {};
    return { id: asString(object.id) ?? '', name: asString(object.name) ?? '', arguments: asString(object.arguments) ?? '' };
  });
  message.finish = 'tool_calls';
}
