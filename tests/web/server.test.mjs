// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answers, ask, closeBrowser, finished, openBrowser, withPage } from './browser.mjs';

before(openBrowser);
after(closeBrowser);

const kRefused = 'Failed to load resource'; // what chromium writes for any status from 400 on

test('an error is shown in the server\'s words, and retry replaces it', () =>
  withPage({ expected: [kRefused] }, async ({ page, server }) => {
    const answer = await ask(page, 'field');
    assert.match(await answer.innerText(), /Error 400\. temperature must be at most 2/);
    await answer.getByRole('button', { name: 'Try again' }).click();
    await page.waitForFunction(() => !document.querySelector('.branches'));
    await finished(page);
    assert.equal(await answers(page).count(), 1);
    assert.equal(server.requests.length, 2);
    assert.match(await (await ask(page, 'busy')).innerText(), /Error 503\. The queue is full\.\s+The server asks to wait 7 s\./);
    assert.match(await (await ask(page, 'html')).innerText(), /502 Bad Gateway/);
  }));

test('errors inside a stream and broken connections keep what had come', () =>
  withPage({ expected: ['ERR_INCOMPLETE_CHUNKED_ENCODING', kRefused] }, async ({ page }) => {
    const late = await ask(page, 'late');
    assert.match(await late.innerText(), /It begins and/);
    assert.match(await late.innerText(), /the model went away/);
    const broken = await ask(page, 'broken');
    assert.match(await broken.innerText(), /Half of an answer/);
    assert.match(await broken.innerText(), /connection broke|ended before the answer was complete/);
    assert.match(await (await ask(page, 'cutoff')).innerText(), /Cut: the longest answer/);
  }));

test('warnings of the server are shown', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, 'warned');
    assert.match(await answer.innerText(), /2 old turns were left out\s+The server ignored: top_k\./);
  }));

test('a server that is gone is said, and the list of models can be read again', () =>
  withPage({ expected: [kRefused] }, async ({ page, context }) => {
    await context.route('**/v1/models', (route) => route.abort());
    await page.reload();
    await page.getByText('The list of models could not be read.').waitFor();
    await context.unroute('**/v1/models');
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click();
    await page.getByText('tiny-chat runs on your server').waitFor();
  }));

test('a full context offers "trim oldest", which sends less and says so', () =>
  withPage({ expected: [kRefused] }, async ({ page, server }) => {
    await ask(page, 'echo one');
    const answer = await ask(page, 'overflow please');
    assert.match(await answer.innerText(), /It fits: 3 messages/);
    const full = await ask(page, 'overflow again');
    assert.match(await full.innerText(), /The context is full\./);
    assert.match(await full.innerText(), /5,000 tokens to read, room for 4,096/);
    await full.getByRole('button', { name: 'Trim oldest and retry' }).click();
    await answers(page).getByText(/It fits: [13] messages/).last().waitFor();
    await finished(page);
    assert.ok(server.requests.at(-1).messages.length < 5);
    assert.equal(server.requests.at(-1).messages.at(-1).content, 'overflow again');
    await page.getByText('Messages above are no longer sent to the model.').waitFor();
    assert.equal(await page.getByText('echo one').count() > 0, true); // still there to read
    server.maxMessages = 100;
    await page.getByRole('button', { name: 'Send them again' }).click();
    await ask(page, 'overflow third');
    assert.equal(server.requests.at(-1).messages.length, 7);
  }));

test('one message that is too long alone cannot be trimmed, which is said', () =>
  withPage({ expected: [kRefused], before: (server) => (server.maxMessages = 0) }, async ({ page }) => {
    const full = await ask(page, 'overflow');
    await full.getByRole('button', { name: 'Trim oldest and retry' }).click();
    await page.getByText('Only the last message is left, and it alone is too long.').waitFor();
  }));

test('a nearly full context is said before it is full', () =>
  withPage({ before: (server) => (server.promptTokens = 3900) }, async ({ page, server }) => {
    await ask(page, 'echo one');
    await ask(page, 'echo two');
    await page.getByText(/tokens are used: the next answer may not fit/).waitFor();
    await page.getByRole('button', { name: 'Trim oldest' }).click();
    await page.getByText('Messages above are no longer sent').waitFor();
    server.promptTokens = 100;
    await ask(page, 'echo three');
    assert.ok(server.requests.at(-1).messages.length < 5);
  }));

test('the model picker changes the model, and keeps it', () =>
  withPage({}, async ({ page, server }) => {
    await page.getByLabel('Model', { exact: true }).selectOption('other-model');
    await ask(page, 'echo x');
    assert.equal(server.requests[0].model, 'other-model');
    await page.goto(server.url);
    await page.getByText('other-model runs on your server').waitFor();
    server.models = [{ id: 'third', object: 'model' }];
    await page.getByRole('navigation', { name: 'Conversations' }).getByRole('button', { name: 'echo x', exact: true }).click();
    await page.reload();
    await page.getByRole('option', { name: 'other-model (not on this server)' }).waitFor({ state: 'attached' });
  }));

test('an import that the server does not allow is said clearly', () =>
  withPage({ expected: [kRefused] }, async ({ page }) => {
    await page.getByRole('button', { name: 'Import a model' }).click();
    await page.getByLabel('Path on the server').fill('/models/new.litertlm');
    await page.getByRole('button', { name: 'Import', exact: true }).last().click();
    await page.getByText('This server does not allow importing models: start it with the option that allows imports').waitFor();
  }));

test('a bundle on the server is imported and chosen', () =>
  withPage({ expected: [kRefused], before: (server) => (server.importAllowed = true) }, async ({ page, server }) => {
    await page.getByRole('button', { name: 'Import a model' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Path on the server').fill('/models/none.txt');
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await dialog.getByText('/models/none.txt: no such file').waitFor();
    await dialog.getByLabel('Path on the server').fill('/models/new.litertlm');
    await dialog.getByLabel('GPU').check();
    await dialog.getByLabel('Context').fill('2048');
    await dialog.getByLabel('Thinking').selectOption('off');
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    assert.deepEqual(server.imports, [{ path: '/models/new.litertlm', accelerators: ['cpu', 'gpu'], context: 2048, thinking: false }]);
    assert.equal(await page.getByLabel('Model', { exact: true }).inputValue(), 'new');
  }));

test('an API key is asked for, used, and forgotten with the tab', () =>
  withPage({ expected: [kRefused], before: (server) => (server.apiKey = 'sesame') }, async ({ page, server, context }) => {
    const field = page.getByLabel(/This server asks for an API key/);
    await field.fill('wrong');
    await page.getByRole('button', { name: 'Use key' }).click();
    await page.getByText('The server refused this key.').waitFor();
    await field.fill('sesame');
    await page.getByRole('button', { name: 'Use key' }).click();
    await field.waitFor({ state: 'detached' });
    const answer = await ask(page, 'echo open');
    assert.match(await answer.innerText(), /open/);
    const kept = await page.evaluate(() => [JSON.stringify(localStorage), JSON.stringify(sessionStorage)]);
    assert.equal(kept[0].includes('sesame'), false);
    assert.equal(kept[1].includes('sesame'), true);
    server.apiKey = 'changed';
    await ask(page, 'echo later');
    await field.fill('changed');
    await page.getByRole('button', { name: 'Use key' }).click();
    await answers(page).getByText('You said: later').waitFor(); // what failed is asked again
    const other = await context.newPage();
    await other.goto(server.url);
    await other.getByLabel(/This server asks for an API key/).waitFor();
  }));
