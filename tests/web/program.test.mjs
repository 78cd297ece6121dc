// SPDX-License-Identifier: Apache-2.0
// The page that is inside the program, with a real model. HONE_PROGRAM and HONE_MODEL name others.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { answers, ask, axeFaults, closeBrowser, finished, openBrowser, send, withPage } from './browser.mjs';

const root = new URL('../../', import.meta.url).pathname;
const program = process.env.HONE_PROGRAM ?? join(root, 'build/release/hone');
const model = process.env.HONE_MODEL ?? join(root, 'models/SmolLM2-135M-Instruct.Q4_1.gguf');

let server, folder;

async function startProgram() {
  for (const path of [program, model]) assert.ok(existsSync(path), `${path} is missing; scripts/test makes it`);
  const child = spawn(program, ['serve', `smol=${model}`, '--port', '0', '--allow-import', '--temperature', '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  for await (const line of createInterface({ input: child.stderr })) {
    said += `${line}\n`;
    const found = /listening at (http:\S+)/.exec(line);
    if (found) {
      child.stderr.resume();
      return { url: found[1].replace(/\/$/, ''), child };
    }
  }
  throw new Error(`hone serve ended before it listened:\n${said}`);
}

before(async () => {
  await openBrowser();
  server = await startProgram();
  for (let i = 0; i < 600; i += 1) { // until the model is there
    if ((await (await fetch(`${server.url}/health`)).json()).status === 'ok') break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  folder = mkdtempSync(join(tmpdir(), 'hone-web-'));
});
after(async () => {
  if (server) {
    const ended = once(server.child, 'exit');
    server.child.kill('SIGTERM');
    const [code] = await ended;
    assert.equal(code, 0, 'the server ends well when asked to');
  }
  if (folder) rmSync(folder, { recursive: true });
  await closeBrowser();
});

const running = async () => (await (await fetch(`${server.url}/props`)).json()).models[0].requests;

test('a real model answers, and the conversation goes on', () =>
  withPage({ server }, async ({ page }) => {
    const answer = await ask(page, 'What is the capital of France?');
    assert.match(await answer.innerText(), /Paris/);
    assert.match(await answer.locator('.stats').innerText(), /^\d+ tokens · .*first after/);
    await ask(page, 'And of Italy?');
    assert.equal(await answers(page).count(), 2);
    assert.match(await page.getByRole('meter', { name: 'Context' }).getAttribute('aria-valuetext'), /of [\d,]+ tokens/);
    assert.deepEqual(await axeFaults(page), []);
    await page.reload();
    await answers(page).nth(1).waitFor(); // kept in the browser
    assert.match(await answers(page).first().innerText(), /Paris/);
  }));

test('Stop ends the work of the server', () =>
  withPage({ server }, async ({ page }) => {
    await send(page, 'Write a very long story about a river and all the towns on it.');
    await page.waitForFunction(() => (document.querySelector('article[aria-label="Answer"]')?.textContent ?? '').length > 40);
    await page.getByRole('button', { name: 'Stop' }).click();
    await finished(page);
    assert.match(await answers(page).last().innerText(), /Stopped\./);
    for (let i = 0; i < 100 && (await running()) > 0; i += 1) await page.waitForTimeout(50);
    assert.equal(await running(), 0);
    assert.match(await (await ask(page, 'What is the capital of France?')).innerText(), /\w/);
  }));

test('a model of the disk is imported and answers', () =>
  withPage({ server }, async ({ page }) => {
    const path = join(folder, 'second.gguf');
    copyFileSync(model, path);
    await page.getByRole('button', { name: 'Import a model' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Path on the server').fill(path);
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await dialog.waitFor({ state: 'detached', timeout: 60_000 }); // it is loaded
    assert.equal(await page.getByLabel('Model', { exact: true }).inputValue(), 'second');
    const names = (await (await fetch(`${server.url}/v1/models`)).json()).data.map((entry) => entry.id);
    assert.deepEqual(names.sort(), ['second', 'smol']);
    assert.match(await (await ask(page, 'What is the capital of France?')).innerText(), /Paris/);
  }));

test('the page comes with its policy and nothing inline', async () => {
  const response = await fetch(server.url);
  assert.match(response.headers.get('content-security-policy'), /default-src 'none'.*script-src 'self'/);
  const html = await response.text();
  assert.doesNotMatch(html, /<script(?![^>]*\ssrc=)|<style|\son\w+=/);
});
