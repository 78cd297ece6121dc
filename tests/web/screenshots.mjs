// SPDX-License-Identifier: Apache-2.0
// Makes the pictures of docs/images from the built page. Usage: node tests/web/screenshots.mjs [FOLDER]
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answers, ask, closeBrowser, finished, kPhone, openBrowser, withPage } from './browser.mjs';

const folder = process.argv[2] ?? fileURLToPath(new URL('../../docs/images/', import.meta.url));
const kDesktop = { viewport: { width: 1180, height: 780 } };

async function fillHistory(page) {
  for (const title of ['Names for a small boat', 'Explain page tables', 'Regex for ISO dates']) {
    await ask(page, title);
    await page.getByRole('button', { name: 'New chat' }).click();
  }
}

async function showMarkdown(page) {
  const answer = await ask(page, 'markdown: how do I rotate a vector?');
  await answer.locator('math').first().waitFor();
  await answer.locator('.hl-keyword').first().waitFor();
  await page.locator('.thread').evaluate((e) => e.scrollTo({ top: 0 }));
  await page.mouse.move(600, 5);
  await page.waitForTimeout(300);
}

await mkdir(folder, { recursive: true });
await openBrowser();
for (const colorScheme of ['light', 'dark']) {
  await withPage({ context: { ...kDesktop, colorScheme } }, async ({ page }) => {
    await fillHistory(page);
    await showMarkdown(page);
    await page.screenshot({ path: join(folder, `chat-${colorScheme}.png`) });
  });
}
await withPage({ context: { ...kPhone, viewport: { width: 390, height: 780 }, deviceScaleFactor: 1.5 } }, async ({ page }) => {
  await page.fill('#message-box', 'think: what is 2 + 3?');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await answers(page).first().waitFor();
  await finished(page);
  await page.getByRole('button', { name: 'Thinking', exact: true }).click();
  await page.mouse.move(0, 0);
  await page.fill('#message-box', 'tools: and the weather in Zürich?');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await finished(page);
  await page.locator('.thread').evaluate((e) => e.scrollTo({ top: 0 }));
  await page.waitForTimeout(300);
  await page.screenshot({ path: join(folder, 'chat-phone.png') });
});
if (process.env.MORE) {
  await withPage({ context: kDesktop }, async ({ page }) => {
    await page.screenshot({ path: join(folder, 'more-empty.png') });
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.screenshot({ path: join(folder, 'more-settings.png') });
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Import a model' }).click();
    await page.screenshot({ path: join(folder, 'more-import.png') });
  });
  await withPage({ context: { ...kPhone, colorScheme: 'dark' }, expected: ['Failed to load'], before: (s) => (s.maxMessages = 0) }, async ({ page }) => {
    await page.fill('#message-box', 'overflow');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await finished(page);
    await page.screenshot({ path: join(folder, 'more-error.png') });
    await page.getByRole('button', { name: 'Conversations' }).click();
    await page.getByRole('button', { name: /^Actions for/ }).click();
    await page.waitForTimeout(200);
    await page.screenshot({ path: join(folder, 'more-drawer.png') });
  });
}
await closeBrowser();
