// SPDX-License-Identifier: Apache-2.0
import { streamChat } from '../api/client';
import { factsOf } from '../api/errors';
import { Reply } from '../api/reply';
import type { Conversation, Finish, Message } from '../chat/conversation';
import { chatRequest } from '../chat/request';
import { lexMs } from '../markdown/parse';

const kSaveEveryMs = 2000;

interface Options {
  apiKey: string;
  signal: AbortSignal;
  onChange: () => void; // `message` has changed; at most once per picture
  onPause: () => void; // a good moment to save
}

// Streams an answer to `history` into `message`. Never throws: a fault is in message.error.
export async function generateReply(conversation: Conversation, history: Message[], message: Message, options: Options) {
  const reply = new Reply();
  const began = performance.now();
  let first = 0;
  let last = 0;
  const painter = new Painter(() => {
    copyReply(reply, message);
    liveStats(reply, message, began, first, last);
    options.onChange();
  });
  let saved = began;
  try {
    await streamChat(chatRequest(conversation, history), reply, {
      apiKey: options.apiKey,
      signal: options.signal,
      onText: () => {
        last = performance.now();
        first ||= last;
        painter.request();
        if (last - saved > kSaveEveryMs) {
          saved = last;
          options.onPause();
        }
      },
    });
    message.finish = finishOf(reply);
  } catch (error) {
    if (options.signal.aborted) {
      message.finish = 'stopped';
    } else {
      message.finish = 'error';
      message.error = factsOf(error);
    }
  }
  painter.stop();
  copyReply(reply, message);
  liveStats(reply, message, began, first, last);
}

function finishOf(reply: Reply): Finish {
  if (reply.finish === 'length' || reply.finish === 'tool_calls') return reply.finish;
  return 'stop';
}

function copyReply(reply: Reply, message: Message) {
  message.content = reply.content;
  message.reasoning = reply.reasoning;
  message.toolCalls = reply.toolCalls.map((call) => ({ ...call }));
  message.notes = [...reply.notes];
  message.model = reply.model ?? message.model;
}

// Until the server has counted, each chunk is taken as one token.
function liveStats(reply: Reply, message: Message, began: number, first: number, last: number) {
  if (first === 0) return;
  message.stats = {
    promptTokens: reply.usage?.promptTokens ?? 0,
    completionTokens: reply.usage?.completionTokens ?? reply.numDeltas,
    firstMs: Math.round(first - began),
    decodeMs: Math.round(last - first),
  };
}

// Calls `paint` soon after a request, but leaves the browser most of its time for other things.
class Painter {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;
  constructor(readonly paint: () => void) {}

  request() {
    if (this.#timer !== undefined || this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.paint();
    }, Math.max(33, 4 * lexMs()));
  }
  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
