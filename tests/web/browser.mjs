// SPDX-License-Identifier: Apache-2.0
// Opens the page in Debian's chromium and watches it: errors, foreign requests, policy violations.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { startMockServer } from './mock_server.mjs';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const kPhone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

let browser;
export async function openBrowser() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage'], // tests run as root in containers
  });
}
export async function closeBrowser() {
  await browser?.close();
}

// Runs `test({ page, server, context, faults })` with a server and a browser profile of its own, and
// fails afterwards on anything that the page must never do; `faults` has it so far. `expected`: console errors that belong to it.
// `server`: one that runs already, instead of a mock.
export async function withPage(options, test) {
  const server = options.server ?? (await startMockServer());
  const context = await browser.newContext({ acceptDownloads: true, ...options.context });
  const faults = [];
  const expected = [...(options.expected ?? [])];
  const watch = (page) => {
    page.setDefaultTimeout(30_000);
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') faults.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => faults.push(`uncaught: ${error.message}`));
    page.on('dialog', (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(server.url) && !url.startsWith('data:') && !url.startsWith('blob:')) faults.push(`request to ${url}`);
    });
  };
  context.on('page', watch);
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  try {
    const page = await context.newPage();
    if (options.before) options.before(server);
    await page.goto(server.url + (options.path ?? ''));
    await page.locator('#message-box').waitFor();
    await test({ page, server, context, faults });
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  } finally {
    await context.close();
    if (!options.server) await server.close();
  }
  const left = faults.filter((fault) => !expected.some((text) => fault.includes(text)));
  assert.deepEqual(left, []);
}

// Waits until condition() gives something true.
export async function until(condition, what) {
  const end = Date.now() + 10_000;
  while (!(await condition())) {
    if (Date.now() > end) assert.fail(`not within 10 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Waits until condition(conversation) holds for one that the browser has stored. Its `chosen` is an
// object here, and its `messages` a list.
export async function saved(page, condition, what) {
  const read = () =>
    page.evaluate(async () => {
      const settled = (request) =>
        new Promise((resolve, reject) => {
          request.onsuccess = () => resolve(request.result);
          request.onerror = () => reject(request.error);
        });
      const db = await settled(indexedDB.open('hone-chat'));
      const all = await settled(db.transaction('bodies').objectStore('bodies').getAll());
      db.close();
      return all.map((c) => ({ ...c, chosen: Object.fromEntries(c.chosen), messages: [...c.messages.values()] }));
    });
  await until(async () => (await read()).some(condition), `saved: ${what}`);
}

export async function send(page, text) {
  await page.fill('#message-box', text);
  await page.press('#message-box', 'Enter');
}

export const answers = (page) => page.locator('article[aria-label="Answer"]');

// Sends and waits until the answer is complete; its locator.
export async function ask(page, text) {
  const before = await answers(page).count();
  await send(page, text);
  const answer = answers(page).nth(before);
  await answer.waitFor();
  await finished(page);
  return answer;
}

export async function finished(page) {
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
}

// Serious and critical faults that axe-core finds, each with its elements.
export async function axeFaults(page) {
  await page.evaluate(axeSource); // a script element would be against the page's policy
  return page.evaluate(async () => {
    const result = await window.axe.run(document, { resultTypes: ['violations'] });
    return result.violations
      .filter((violation) => violation.impact === 'serious' || violation.impact === 'critical')
      .map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`);
  });
}
