// SPDX-License-Identifier: Apache-2.0

export interface SseEvent {
  event: string; // "message" unless the stream names it
  data: string;
}

const kMaxEventChars = 16 * 1024 * 1024;

// Reads a text/event-stream from bytes that may be cut anywhere, also inside a character or between
// CR and LF. Comments, ids and retry times are skipped. Throws on an event of over 16 M characters.
export class SseParser {
  #decoder = new TextDecoder('utf-8'); // removes a byte order mark, replaces bad bytes
  #line = '';
  #afterCr = false;
  #event = '';
  #data: string[] = [];
  #dataChars = 0;

  // The events that `bytes` complete, in order.
  push(bytes: Uint8Array): SseEvent[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    const events: SseEvent[] = [];
    let begin = 0;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      const secondOfPair = this.#afterCr && c === 10;
      this.#afterCr = c === 13;
      if (secondOfPair) {
        begin = i + 1;
      } else if (c === 10 || c === 13) {
        this.#endLine(this.#line + text.slice(begin, i), events);
        this.#line = '';
        begin = i + 1;
      }
    }
    this.#line += text.slice(begin);
    if (this.#line.length + this.#dataChars > kMaxEventChars) {
      throw new Error(`the server sent an event of over ${kMaxEventChars} characters`);
    }
    return events;
  }

  #endLine(line: string, events: SseEvent[]) {
    if (line === '') {
      if (this.#data.length > 0) {
        events.push({ event: this.#event || 'message', data: this.#data.join('\n') });
      }
      this.#event = '';
      this.#data = [];
      this.#dataChars = 0;
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment, sent to keep the connection open
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') {
      this.#data.push(value);
      this.#dataChars += value.length;
    } else if (field === 'event') {
      this.#event = value;
    }
  }
}
