// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readFile, writeFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { answers, ask, closeBrowser, finished, openBrowser, saved, send, withPage } from './browser.mjs';

let folder;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hone-web-'));
  await openBrowser();
});
after(async () => {
  await closeBrowser();
  await rm(folder, { recursive: true });
});

const list = (page) => page.getByRole('navigation', { name: 'Conversations' });
const titles = (page) => list(page).locator('.conversation-title').allInnerTexts();

async function action(page, title, name) {
  await list(page).getByText(title, { exact: true }).hover();
  await list(page).getByRole('button', { name: `Actions for ${title}` }).click();
  await list(page).getByRole('button', { name, exact: true }).click();
}

async function download(page, start) {
  const [file] = await Promise.all([page.waitForEvent('download'), start()]);
  const path = join(folder, file.suggestedFilename());
  await file.saveAs(path);
  return { path, text: await readFile(path, 'utf8') };
}

async function importFile(page, path) {
  await page.locator('input[type=file]').setInputFiles(path);
  return page.locator('.banner').innerText();
}

test('a reload keeps the history, with branches, and opens the conversation again', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, 'count');
    await answer.getByRole('button', { name: 'Retry' }).click();
    await answers(page).getByText('Answer number 2.').waitFor();
    await finished(page);
    await answers(page).getByRole('button', { name: 'Previous branch' }).click();
    await answers(page).getByText('Answer number 1.').waitFor();
    const isFirst = (m) => m.content.includes('Answer number 1.');
    await saved(page, (c) => c.messages.some((m) => isFirst(m) && c.chosen[m.parent] === m.id), 'the first branch');
    await page.reload();
    await answers(page).getByText('Answer number 1.').waitFor();
    assert.match(await answers(page).innerText(), /1 \/ 2/);
    assert.deepEqual(await titles(page), ['count']);
  }));

test('an answer that is cut by a reload keeps what had come', () =>
  withPage({}, async ({ page }) => {
    await send(page, 'slow');
    await answers(page).getByText('word200 ').waitFor();
    await page.reload();
    await answers(page).getByText('word3').waitFor();
    assert.match(await answers(page).innerText(), /Stopped\./);
  }));

test('conversations are searched, renamed and deleted', () =>
  withPage({}, async ({ page }) => {
    await ask(page, 'echo apples');
    await page.getByRole('button', { name: 'New chat' }).click();
    await ask(page, 'raw the secret word is Pomegranate');
    assert.deepEqual(await titles(page), ['raw the secret word is Pomegranate', 'echo apples']);
    await page.getByRole('searchbox').fill('pomegranate SECRET');
    await list(page).getByText('echo apples').waitFor({ state: 'detached' });
    assert.deepEqual(await titles(page), ['raw the secret word is Pomegranate']);
    await page.getByRole('searchbox').fill('no such thing');
    await list(page).getByText('Nothing found.').waitFor();
    await page.getByRole('searchbox').fill('');
    await action(page, 'echo apples', 'Rename');
    await page.getByRole('textbox', { name: 'New title' }).fill('Fruit');
    await page.keyboard.press('Enter');
    await list(page).getByText('Fruit', { exact: true }).waitFor();
    await list(page).getByRole('button', { name: 'Actions for Fruit' }).click(); // still open: closes
    await action(page, 'Fruit', 'Delete');
    await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
    assert.equal((await titles(page)).length, 2);
    await list(page).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await list(page).getByText('Fruit').waitFor({ state: 'detached' });
    await page.reload();
    await list(page).getByText('Pomegranate').waitFor();
    assert.deepEqual(await titles(page), ['raw the secret word is Pomegranate']);
  }));

test('JSON goes out and comes back with its branches', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, 'count');
    await answer.getByRole('button', { name: 'Retry' }).click();
    await answers(page).getByText('Answer number 2.').waitFor();
    await finished(page);
    const { path, text } = await download(page, () => action(page, 'count', 'Export JSON'));
    assert.equal(JSON.parse(text).conversations[0].messages.length, 3);
    await page.evaluate(() => indexedDB.deleteDatabase('hone-chat'));
    await page.goto('about:blank');
    await page.goBack();
    await page.locator('#message-box').waitFor();
    assert.match(await importFile(page, path), /1 conversation imported/);
    await answers(page).getByText('Answer number 2.').waitFor();
    assert.match(await answers(page).innerText(), /2 \/ 2/);
    await importFile(page, path); // again: a copy
    await page.waitForFunction(() => document.querySelectorAll('.conversation').length === 2);
  }));

test('Markdown goes out and comes back', () =>
  withPage({}, async ({ page, server }) => {
    await ask(page, 'think');
    await ask(page, 'tools');
    const { path, text } = await download(page, () => action(page, 'think', 'Export Markdown'));
    assert.match(text, /^# think\n/);
    assert.match(text, /The sum is \*\*5\*\*\./);
    assert.match(await importFile(page, path), /1 conversation imported/);
    await page.getByRole('button', { name: 'Thinking', exact: true }).waitFor();
    await ask(page, 'echo and now');
    assert.equal(server.requests.at(-1).messages.length, 5);
    assert.equal(server.requests.at(-1).messages[3].tool_calls[0].function.name, 'get_weather');
  }));

test('"Export all" has every conversation', () =>
  withPage({}, async ({ page }) => {
    await ask(page, 'echo one');
    await page.getByRole('button', { name: 'New chat' }).click();
    await ask(page, 'echo two');
    await saved(page, (c) => c.title === 'echo two', 'the second one');
    const { text } = await download(page, () => page.getByRole('button', { name: 'Export all' }).click());
    assert.deepEqual(JSON.parse(text).conversations.map((c) => c.title).sort(), ['echo one', 'echo two']);
  }));

test('a file that is no export is refused with a reason', () =>
  withPage({}, async ({ page }) => {
    const path = join(folder, 'bad.json');
    await writeFile(path, '{"format":"hone-chat","version":1,"conversations":[{"id":"a","title":"t","messages":[{"id":"m","parent":"x","role":"user","content":""}]}]}');
    assert.match(await importFile(page, path), /not imported: conversations\[0\]\.messages\[0\]\.parent is not the id of an earlier message/);
    await writeFile(path, 'no markdown of ours');
    assert.match(await importFile(page, path), /not imported/);
    assert.deepEqual(await titles(page), []);
  }));

test('two tabs do not lose each other\'s messages', () =>
  withPage({}, async ({ page, context }) => {
    await ask(page, 'echo first');
    await saved(page, (c) => c.messages.some((m) => m.content.includes('You said: first') && m.finish === 'stop'), 'the answer');
    const other = await context.newPage();
    await other.goto(page.url());
    await answers(other).getByText('You said: first').waitFor();
    await ask(other, 'echo from the other tab');
    await answers(page).getByText('You said: from the other tab').waitFor();
  }));
