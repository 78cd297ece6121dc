// SPDX-License-Identifier: Apache-2.0
import { mergeStored, type Conversation } from '../chat/conversation';
import { readFinish } from '../chat/transfer_json';

// What the list of conversations needs to know.
export interface Entry {
  id: string;
  title: string;
  updatedMs: number;
}

// The conversations of this browser, in IndexedDB: "bodies" has whole conversations, "entries" the
// list. All calls reject if the browser refuses; the caller says so.
export class History {
  #db: IDBDatabase;

  private constructor(db: IDBDatabase) {
    this.#db = db;
  }

  static async open(factory: IDBFactory = indexedDB, name = 'hone-chat'): Promise<History> {
    const request = factory.open(name, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('bodies', { keyPath: 'id' });
      request.result.createObjectStore('entries', { keyPath: 'id' });
    };
    const db = await settled(request);
    db.onversionchange = () => db.close(); // a newer page in another tab may upgrade
    return new History(db);
  }

  // Latest first.
  async list(): Promise<Entry[]> {
    const store = this.#db.transaction('entries').objectStore('entries');
    const entries = await settled(store.getAll() as IDBRequest<Entry[]>);
    return entries.sort((a, b) => b.updatedMs - a.updatedMs);
  }

  async load(id: string): Promise<Conversation | undefined> {
    const store = this.#db.transaction('bodies').objectStore('bodies');
    const found = await settled(store.get(id) as IDBRequest<Conversation | undefined>);
    // It was being written when the page closed, and will not go on.
    for (const message of found?.messages.values() ?? []) message.finish = readFinish(message.finish);
    return found;
  }

  async loadAll(): Promise<Conversation[]> {
    return settled(this.#db.transaction('bodies').objectStore('bodies').getAll() as IDBRequest<Conversation[]>);
  }

  // Stores `mine` together with what another tab stored meanwhile.
  async save(mine: Conversation): Promise<void> {
    const transaction = this.#db.transaction(['bodies', 'entries'], 'readwrite');
    const bodies = transaction.objectStore('bodies');
    const reading = bodies.get(mine.id) as IDBRequest<Conversation | undefined>;
    reading.onsuccess = () => {
      bodies.put(reading.result ? mergeStored(reading.result, mine) : mine);
      const entry: Entry = { id: mine.id, title: mine.title, updatedMs: mine.updatedMs };
      transaction.objectStore('entries').put(entry);
    };
    await completed(transaction);
  }

  async remove(id: string): Promise<void> {
    const transaction = this.#db.transaction(['bodies', 'entries'], 'readwrite');
    transaction.objectStore('bodies').delete(id);
    transaction.objectStore('entries').delete(id);
    await completed(transaction);
  }

  // Ids of the conversations that have all words of `query` in title, messages or thinking.
  async search(query: string): Promise<Set<string>> {
    const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
    const found = new Set<string>();
    const request = this.#db.transaction('bodies').objectStore('bodies').openCursor();
    await new Promise<void>((resolve, reject) => {
      request.onerror = () => reject(request.error as Error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve();
        const conversation = cursor.value as Conversation;
        const text = searchText(conversation);
        if (words.every((word) => text.includes(word))) found.add(conversation.id);
        cursor.continue();
      };
    });
    return found;
  }
}

function searchText(conversation: Conversation): string {
  const parts = [conversation.title];
  for (const message of conversation.messages.values()) parts.push(message.content, message.reasoning);
  return parts.join('\n').toLowerCase();
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error as Error);
  });
}

function completed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error as Error);
  });
}
