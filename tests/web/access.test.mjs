// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answers, ask, axeFaults, closeBrowser, finished, kPhone, openBrowser, send, withPage } from './browser.mjs';

before(openBrowser);
after(closeBrowser);

const kRefused = 'Failed to load resource';

// Everything that the page can show, checked state by state.
async function checkAllStates(page, phone) {
  const faults = {};
  const check = async (name) => {
    const found = await axeFaults(page);
    if (found.length > 0) faults[name] = found;
  };
  await check('empty');
  const answer = await ask(page, 'markdown');
  await answer.locator('math').first().waitFor();
  await answer.locator('.hl-keyword').first().waitFor();
  await ask(page, 'think');
  await page.getByRole('button', { name: 'Thinking', exact: true }).click();
  await ask(page, 'tools');
  await page.locator('summary').first().click();
  await ask(page, 'field');
  await answers(page).last().getByRole('button', { name: 'Try again' }).click();
  await finished(page);
  await check('conversation');
  await page.getByRole('button', { name: 'Edit message' }).first().click();
  await check('editor');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Temperature').fill('x');
  await check('settings');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Import a model' }).click();
  await check('import');
  await page.keyboard.press('Escape');
  if (phone) await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByRole('button', { name: /^Actions for/ }).first().click();
  await check('list');
  await page.locator('.conversation-actions').getByRole('button', { name: 'Delete' }).click();
  await check('delete');
  assert.deepEqual(faults, {});
}

for (const scheme of ['light', 'dark']) {
  test(`axe finds no serious fault in ${scheme} mode`, () =>
    withPage({ expected: [kRefused], context: { colorScheme: scheme } }, ({ page }) => checkAllStates(page, false)));
  test(`axe finds no serious fault on a phone in ${scheme} mode`, () =>
    withPage({ expected: [kRefused], context: { ...kPhone, colorScheme: scheme } }, async ({ page }) => {
      const press = page.press.bind(page);
      // On a phone Enter makes a new line; the button sends.
      page.press = (selector, key) => (key === 'Enter' ? page.getByRole('button', { name: 'Send', exact: true }).click() : press(selector, key));
      await checkAllStates(page, true);
    }));
}

test('colours follow the system until they are chosen, and the choice is kept', () =>
  withPage({ context: { colorScheme: 'dark' } }, async ({ page }) => {
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), 'dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
    await page.getByRole('button', { name: /^Colours: system/ }).click();
    await page.getByRole('button', { name: /^Colours: light/ }).click();
    const isDark = () => document.documentElement.dataset.theme === 'dark';
    await page.waitForFunction(isDark);
    await page.reload();
    await page.getByRole('button', { name: /^Colours: dark/ }).waitFor();
    await page.waitForFunction(isDark);
  }));

test('the keyboard alone is enough: skip link, order, dialogs give the focus back', () =>
  withPage({}, async ({ page, server }) => {
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.innerText ?? '');
    const toBegin = () => page.evaluate(() => {
      document.body.tabIndex = -1;
      document.body.focus();
    });
    await toBegin();
    await page.keyboard.press('Tab');
    assert.equal((await focused()).trim(), 'Skip to the message box');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'message-box');
    await page.keyboard.type('echo keys');
    await page.keyboard.press('Enter');
    await finished(page);
    assert.equal(server.requests.length, 1);
    const order = [];
    await toBegin();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      order.push((await page.evaluate(() => document.activeElement?.id)) || (await focused()).trim());
      if (order.at(-1) === 'message-box') break;
    }
    for (const name of ['New chat', 'Settings', 'Copy message', 'Retry', 'message-box']) assert.ok(order.includes(name), `${name} in ${order}`);
    assert.ok(order.indexOf('New chat') < order.indexOf('Settings'));
    assert.ok(order.indexOf('Settings') < order.indexOf('Copy message'));
    await page.getByRole('button', { name: 'Settings' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await focused(), 'Settings');
  }));

test('a screen reader hears the answer by sentences, politely', () =>
  withPage({}, async ({ page }) => {
    const region = page.getByRole('log', { name: 'Progress of the answer' });
    assert.equal(await region.getAttribute('aria-live'), 'polite');
    await send(page, 'think');
    await region.getByText('The model answers.').waitFor({ state: 'attached' });
    await region.getByText('The model thinks.').waitFor({ state: 'attached' });
    await region.getByText('The answer is complete.').waitFor({ state: 'attached' });
    const lines = await region.locator('p').allTextContents();
    assert.deepEqual(lines, ['The model answers.', 'The model thinks.', 'The sum is 5.', 'The answer is complete.']);
  }));

test('on a phone: nothing is wider than the screen, the list is a drawer, Enter makes a new line', () =>
  withPage({ context: kPhone }, async ({ page, server }) => {
    await page.fill('#message-box', 'markdown');
    await page.press('#message-box', 'Enter');
    assert.equal(server.requests.length, 0);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await answers(page).locator('math').first().waitFor();
    await finished(page);
    const width = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.equal(width[0], width[1]);
    assert.equal(await page.getByRole('button', { name: 'New chat' }).isVisible(), false);
    await page.getByRole('button', { name: 'Conversations' }).click();
    await page.getByRole('button', { name: 'New chat' }).waitFor();
    assert.equal(await page.evaluate(() => document.querySelector('.main-column').inert), true);
    assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), 'Close conversations');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'New chat' }).waitFor({ state: 'hidden' });
    const small = await page.locator('button:visible').evaluateAll((list) => list.filter((e) => e.getBoundingClientRect().height < 24).map((e) => e.outerHTML));
    assert.deepEqual(small, []); // large enough for a finger
  }));
