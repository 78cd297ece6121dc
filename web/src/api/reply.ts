// SPDX-License-Identifier: Apache-2.0
import { ApiError, errorFacts } from './errors';
import { asArray, asCount, asObject, asString, type JsonObject } from './json';

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, as far as it has come
}

export interface Usage {
  promptTokens: number;
  completionTokens: number;
}

// An answer of chat completions, put together from its chunks.
export class Reply {
  content = '';
  reasoning = '';
  toolCalls: ToolCall[] = [];
  finish: string | undefined;
  model: string | undefined;
  usage: Usage | undefined;
  notes: string[] = []; // what the server warns of or left out
  numDeltas = 0; // chunks that brought text

  // Adds one chunk. True if it brought text. Throws ApiError if the chunk is an error.
  add(chunk: unknown): boolean {
    const facts = errorFacts(chunk, 0);
    if (facts) throw new ApiError(facts);
    const object = asObject(chunk);
    if (!object) throw new Error('the server sent a chunk that is not a JSON object');
    this.model = asString(object.model) ?? this.model;
    this.#addUsage(asObject(object.usage));
    this.#addNotes(object);
    const choice = asObject(asArray(object.choices)[0]);
    if (!choice) return false;
    this.finish = asString(choice.finish_reason) ?? this.finish;
    const delta = asObject(choice.delta);
    const grew = delta ? this.#addDelta(delta) : false;
    if (grew) this.numDeltas++;
    return grew;
  }

  #addUsage(usage: JsonObject | undefined) {
    const promptTokens = asCount(usage?.prompt_tokens);
    const completionTokens = asCount(usage?.completion_tokens);
    if (promptTokens !== undefined && completionTokens !== undefined) this.usage = { promptTokens, completionTokens };
  }

  #addNotes(chunk: JsonObject) {
    const ignored = asArray(chunk.ignored_fields).filter((name) => typeof name === 'string');
    const notes = asArray(chunk.warnings).filter((text) => typeof text === 'string');
    if (ignored.length > 0) notes.push(`The server ignored: ${ignored.join(', ')}.`);
    for (const note of notes) if (!this.notes.includes(note)) this.notes.push(note);
  }

  #addDelta(delta: JsonObject): boolean {
    const content = asString(delta.content) ?? '';
    const reasoning = asString(delta.reasoning_content) ?? '';
    this.content += content;
    this.reasoning += reasoning;
    let grew = content !== '' || reasoning !== '';
    for (const item of asArray(delta.tool_calls)) grew = this.#addToolCall(asObject(item)) || grew;
    return grew;
  }

  #addToolCall(item: JsonObject | undefined): boolean {
    const index = asCount(item?.index);
    // Calls come in order, so a new one is the next; a wild index must not make a huge array.
    if (!item || index === undefined || index > this.toolCalls.length) return false;
    const call = (this.toolCalls[index] ??= { id: '', name: '', arguments: '' });
    const fn = asObject(item.function);
    call.id = asString(item.id) || call.id;
    call.name = asString(fn?.name) || call.name;
    call.arguments += asString(fn?.arguments) ?? '';
    return true;
  }
}
