// SPDX-License-Identifier: Apache-2.0
import { importModel, listModels, type ImportRequest, type ModelInfo } from '../api/client';
import { factsOf, type ErrorFacts } from '../api/errors';
import {
  addMessage, choose, dropMessage, newConversation, newId, newMessage, path, pathTo,
  type Conversation, type Message,
} from '../chat/conversation';
import type { Settings } from '../chat/settings';
import { planTrim } from '../chat/trim';
import { exportJson, importJson } from '../chat/transfer_json';
import { exportMarkdown, importMarkdown } from '../chat/transfer_markdown';
import { downloadText, fileName } from './download';
import { generateReply } from './generate';
import { History, type Entry } from './history';
import * as preferences from './preferences';

interface Running {
  abort: AbortController;
  message: Message;
}

// The state of the page and everything that changes it. Components read the fields and call the
// methods; each change calls the listener.
export class App {
  current: Conversation;
  entries: Entry[] = [];
  found: Set<string> | undefined; // ids that match the search; undefined: no search
  models: ModelInfo[] | undefined; // undefined until the server has said them
  modelsFault: ErrorFacts | undefined;
  apiKey = preferences.loadApiKey();
  keyNeeded = false;
  theme = preferences.loadTheme();
  // Text for the message box, taken when it is drawn. From the address it is filled in, never sent.
  draft = new URLSearchParams(location.search).get('q') ?? '';
  notice = ''; // a sentence that is shown until it is closed
  onChange: () => void = () => undefined;

  #history: History | undefined;
  #running = new Map<string, Running>(); // by conversation
  #live = new Map<string, Conversation>(); // those that are being answered, and the current one
  #channel: BroadcastChannel | undefined;
  #searchNumber = 0;

  constructor() {
    this.current = newConversation(preferences.loadDefaults(), preferences.loadModel());
  }

  async start() {
    const loading = this.loadModels();
    try {
      this.#history = await History.open();
      this.#listenToOtherTabs();
      await this.#refreshList();
    } catch (error) {
      this.notice = `Conversations cannot be kept in this browser: ${factsOf(error).message}`;
    }
    const wanted = location.hash.slice(1);
    if (!location.search.includes('q=') && this.entries.some((entry) => entry.id === wanted)) await this.open(wanted);
    this.onChange();
    await loading;
  }

  // Models

  async loadModels() {
    try {
      this.models = await listModels(this.apiKey);
      this.modelsFault = undefined;
      this.keyNeeded = false;
      if (this.current.messages.size === 0) this.current.model = this.#knownModel(this.current.model);
    } catch (error) {
      this.modelsFault = factsOf(error);
      if (this.modelsFault.status === 401) this.keyNeeded = true;
    }
    this.onChange();
  }

  setModel(id: string) {
    this.current.model = id;
    preferences.saveModel(id);
    this.#saveIfKept(this.current);
    this.onChange();
  }

  // Throws ApiError.
  async importModel(request: ImportRequest): Promise<string> {
    const id = await importModel(request, this.apiKey);
    await this.loadModels();
    if (this.#modelInfo(id)) this.setModel(id);
    return id;
  }

  // Keeps the key for this tab, and asks again for what was refused without it.
  async setApiKey(key: string) {
    this.apiKey = key;
    preferences.saveApiKey(key);
    await this.loadModels();
    const last = path(this.current).at(-1)?.message;
    if (!this.keyNeeded && last?.error?.status === 401) void this.retry(last.id);
  }

  contextTokens(): number | undefined {
    return this.#modelInfo(this.current.model)?.contextTokens;
  }

  #modelInfo(id: string): ModelInfo | undefined {
    return this.models?.find((model) => model.id === id);
  }

  // `id` if the server has it, else its first model.
  #knownModel(id: string): string {
    return (this.#modelInfo(id) ?? this.models?.[0])?.id ?? id;
  }

  // Conversations

  newChat() {
    this.#show(newConversation(preferences.loadDefaults(), this.#knownModel(this.current.model)));
  }

  async open(id: string) {
    const conversation = this.#live.get(id) ?? (await this.#history?.load(id));
    if (conversation) this.#show(conversation);
    else await this.#refreshList();
  }

  #show(conversation: Conversation) {
    if (!this.#running.has(this.current.id)) this.#live.delete(this.current.id);
    this.current = conversation;
    this.#live.set(conversation.id, conversation);
    // A reload opens it again; an empty one has nothing to open.
    const hash = conversation.messages.size > 0 ? `#${conversation.id}` : '';
    window.history.replaceState(null, '', location.pathname + hash);
    this.onChange();
  }

  async rename(id: string, title: string) {
    const conversation = this.#live.get(id) ?? (await this.#history?.load(id));
    if (!conversation || title.trim() === '') return;
    conversation.title = title.trim();
    conversation.titleByUser = true;
    await this.#save(conversation);
  }

  async remove(id: string) {
    this.#running.get(id)?.abort.abort();
    this.#running.delete(id);
    this.#live.delete(id);
    try {
      await this.#history?.remove(id);
    } catch (error) {
      this.notice = `The conversation could not be deleted: ${factsOf(error).message}`;
    }
    this.#channel?.postMessage({ id });
    await this.#refreshList();
    if (this.current.id === id) this.newChat();
    this.onChange();
  }

  async search(query: string) {
    const number = ++this.#searchNumber;
    const found = query.trim() === '' ? undefined : await this.#history?.search(query);
    if (number !== this.#searchNumber) return; // a later search has begun
    this.found = found;
    this.onChange();
  }

  setSettings(settings: Settings, alsoForNew: boolean) {
    this.current.settings = { ...settings };
    if (alsoForNew) preferences.saveDefaults(settings);
    this.#saveIfKept(this.current);
    this.onChange();
  }

  setTheme(theme: preferences.Theme) {
    this.theme = theme;
    preferences.saveTheme(theme);
    this.onChange();
  }

  closeNotice() {
    this.notice = '';
    this.onChange();
  }

  // Files

  async exportOne(id: string, form: 'json' | 'md') {
    const conversation = this.#live.get(id) ?? (await this.#history?.load(id));
    if (!conversation) return;
    const text = form === 'json' ? exportJson([conversation]) : exportMarkdown(conversation);
    downloadText(fileName(conversation.title, form), text, form === 'json' ? 'application/json' : 'text/markdown');
  }

  async exportAll() {
    const all = (await this.#history?.loadAll()) ?? [...this.#live.values()];
    downloadText(fileName('hone-conversations', 'json'), exportJson(all), 'application/json');
  }

  // Reads exported files. Conversations that are there already come in as copies.
  async importFiles(files: File[]) {
    const lines: string[] = [];
    for (const file of files) {
      try {
        const text = await file.text();
        const read = text.trimStart().startsWith('{') ? importJson(text) : [importMarkdown(text)];
        for (const conversation of read) {
          if (this.entries.some((entry) => entry.id === conversation.id)) conversation.id = newId();
          await this.#save(conversation);
        }
        lines.push(`${file.name}: ${read.length} ${read.length === 1 ? 'conversation' : 'conversations'} imported.`);
        const only = read[0];
        if (only && files.length === 1 && read.length === 1) this.#show(only);
      } catch (error) {
        lines.push(`${file.name}: not imported: ${factsOf(error).message}.`);
      }
    }
    this.notice = lines.join(' ');
    this.onChange();
  }

  // Answers

  isBusy(id = this.current.id): boolean {
    return this.#running.has(id);
  }

  send(text: string) {
    const parent = path(this.current).at(-1)?.message.id ?? '';
    this.#addAndAnswer([newMessage('user', parent, text)]);
  }

  // A changed user message becomes a sibling of the old one: a new branch.
  edit(id: string, text: string) {
    const old = this.current.messages.get(id);
    if (old) this.#addAndAnswer([newMessage('user', old.parent, text)]);
  }

  // Results of the calls of the last answer, in their order.
  sendToolResults(id: string, results: string[]) {
    const calls = this.current.messages.get(id)?.toolCalls ?? [];
    let parent = id;
    const messages = calls.map((call, i) => {
      const message = newMessage('tool', parent, results[i] ?? '');
      message.toolCallId = call.id;
      parent = message.id;
      return message;
    });
    this.#addAndAnswer(messages);
  }

  async retry(id: string) {
    const old = this.current.messages.get(id);
    if (!old || this.isBusy()) return;
    // What failed without a word is no branch worth keeping.
    if (old.finish === 'error' && old.content === '' && old.reasoning === '') dropMessage(this.current, id);
    await this.#answer(this.current, old.parent);
  }

  stop() {
    this.#running.get(this.current.id)?.abort.abort();
  }

  showBranch(id: string) {
    if (this.isBusy()) return;
    choose(this.current, id);
    this.#saveIfKept(this.current);
    this.onChange();
  }

  // Leaves out the oldest turns; after an error, asks again. False if nothing more can leave.
  trimOldest(failedId?: string): boolean {
    const failed = failedId === undefined ? undefined : this.current.messages.get(failedId);
    const history = failed ? pathTo(this.current, failed.parent) : path(this.current).map((entry) => entry.message);
    const stats = history.findLast((message) => message.stats)?.stats;
    const ids = planTrim(history, this.current.settings, {
      promptTokens: failed?.error?.promptTokens ?? (stats && stats.promptTokens + stats.completionTokens),
      contextTokens: failed?.error?.contextTokens ?? this.contextTokens(),
    });
    if (ids.length === 0) return false;
    for (const id of ids) this.#setTrimmed(id, true);
    if (failed) void this.retry(failed.id);
    else this.#saveIfKept(this.current);
    this.onChange();
    return true;
  }

  sendTrimmedAgain() {
    for (const { message } of path(this.current)) this.#setTrimmed(message.id, false);
    this.#saveIfKept(this.current);
    this.onChange();
  }

  #setTrimmed(id: string, trimmed: boolean) {
    const message = this.current.messages.get(id);
    if (message) this.current.messages.set(id, { ...message, trimmed });
  }

  #addAndAnswer(messages: Message[]) {
    const last = messages.at(-1);
    if (!last || this.isBusy()) return;
    for (const message of messages) addMessage(this.current, message);
    void this.#answer(this.current, last.id);
  }

  async #answer(conversation: Conversation, parent: string) {
    const abort = new AbortController();
    const message = newMessage('assistant', parent);
    message.finish = 'writing';
    message.model = conversation.model;
    const history = pathTo(conversation, parent);
    addMessage(conversation, message);
    this.#running.set(conversation.id, { abort, message });
    this.#live.set(conversation.id, conversation);
    void this.#save(conversation);
    this.#show(conversation);
    await generateReply(conversation, history, message, {
      apiKey: this.apiKey,
      signal: abort.signal,
      onChange: () => this.onChange(),
      onPause: () => void this.#save(conversation),
    });
    if (message.error?.status === 401) this.keyNeeded = true;
    if (this.#running.get(conversation.id)?.message !== message) return; // deleted meanwhile
    this.#running.delete(conversation.id);
    if (this.current !== conversation) this.#live.delete(conversation.id);
    this.onChange();
    await this.#save(conversation);
  }

  // Storage

  #saveIfKept(conversation: Conversation) {
    if (conversation.messages.size > 0) void this.#save(conversation);
  }

  async #save(conversation: Conversation) {
    if (!this.#history) return;
    try {
      await this.#history.save(conversation);
      this.#channel?.postMessage({ id: conversation.id });
      await this.#refreshList();
    } catch (error) {
      this.notice = `The conversation could not be saved: ${factsOf(error).message}`;
      this.onChange();
    }
  }

  async #refreshList() {
    if (this.#history) this.entries = await this.#history.list();
    this.onChange();
  }

  #listenToOtherTabs() {
    this.#channel = new BroadcastChannel('hone-chat');
    this.#channel.onmessage = async (event: MessageEvent<{ id: string }>) => {
      await this.#refreshList();
      if (event.data.id !== this.current.id || this.isBusy()) return;
      const stored = await this.#history?.load(this.current.id);
      if (stored && this.current.id === stored.id && !this.isBusy()) {
        this.current = stored;
        this.#live.set(stored.id, stored);
        this.onChange();
      }
    };
  }
}
