// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answers, ask, closeBrowser, openBrowser, withPage } from './browser.mjs';

before(openBrowser);
after(closeBrowser);

// withPage fails on dialogs, foreign requests, policy violations and window.pwned.

test('HTML, scripts, SVG, links and formulas of a model are inert', () =>
  withPage({}, async ({ page, server }) => {
    const answer = await ask(page, 'xss');
    await answer.getByText('The end of the test.').waitFor();
    await answer.locator('.code-block').waitFor();
    await page.waitForTimeout(500); // formulas and colours are loaded late
    assert.ok(await answer.getByText('<img src=x onerror=alert(1)>').first().isVisible());
    const kinds = await answer.locator('.markdown *').evaluateAll((list) => [...new Set(list.map((e) => e.localName))]);
    for (const bad of ['img', 'script', 'iframe', 'style', 'form', 'input', 'object', 'embed', 'mglyph', 'animate', 'base', 'link']) {
      assert.ok(!kinds.includes(bad), `<${bad}> was made`);
    }
    const attributes = await answer.locator('.markdown *').evaluateAll((list) => list.flatMap((e) => e.getAttributeNames()));
    assert.deepEqual(attributes.filter((name) => name.startsWith('on') || name === 'src' || name === 'srcdoc'), []);
    const links = await answer.locator('.markdown a').evaluateAll((list) => list.map((a) => a.getAttribute('href')));
    assert.deepEqual(links, ['http://evil.example/track.png']); // an image, named and not loaded
    for (const dead of await answer.locator('.dead-link').all()) await dead.click();
    assert.equal(page.url().split('#')[0], server.url);
    assert.equal(await page.evaluate(() => document.body.innerText.includes('New chat')), true);
  }));

test('names and titles that look like HTML are text', () =>
  withPage({
    before: (server) => server.models.unshift({ id: '<img src=x onerror=window.pwned=1>', object: 'model' }),
  }, async ({ page }) => {
    await ask(page, 'raw <script>window.pwned=1</script>');
    const title = page.getByRole('navigation', { name: 'Conversations' }).getByRole('button').first();
    assert.match(await title.innerText(), /<script>/);
    assert.match(await page.getByLabel('Model', { exact: true }).locator('option').first().innerText(), /<img/);
  }));

test('a text that is nested without end is shown and not fatal', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, `raw ${'>'.repeat(20000)} deep ${'['.repeat(2000)} ${'*a '.repeat(2000)}`);
    assert.match(await answer.innerText(), /deep/);
    const next = await ask(page, 'echo after');
    assert.match(await next.innerText(), /after/);
  }));

test('?q= fills the box and never sends', () =>
  withPage({ path: '?q=echo%20%3Cb%3Erm%20-rf%3C%2Fb%3E' }, async ({ page, server }) => {
    assert.equal(await page.inputValue('#message-box'), 'echo <b>rm -rf</b>');
    await page.waitForTimeout(500);
    assert.equal(server.requests.length, 0);
    assert.equal(await answers(page).count(), 0);
    await page.press('#message-box', 'Enter');
    await answers(page).getByText('You said').waitFor();
    assert.equal(server.requests.length, 1);
    assert.equal(new URL(page.url()).search, ''); // a reload does not fill it again
  }));

test('the page has no way from text to HTML: it runs with Trusted Types enforced', () =>
  withPage({}, async ({ page, context }) => {
    await context.route('**/', async (route) => {
      const response = await route.fetch();
      const policy = `${response.headers()['content-security-policy']}; require-trusted-types-for 'script'; trusted-types 'none'`;
      await route.fulfill({ response, headers: { ...response.headers(), 'content-security-policy': policy } });
    });
    await page.reload();
    const answer = await ask(page, 'markdown');
    await answer.locator('math').first().waitFor();
    await answer.locator('.hl-keyword').first().waitFor();
    await ask(page, 'xss');
  }));

test('no request leaves the server, and nothing but files and the API is asked for', () =>
  withPage({}, async ({ page, server }) => {
    const paths = new Set();
    page.on('request', (request) => paths.add(new URL(request.url()).pathname.replace(/-[\w-]{8}\./, '-HASH.')));
    await page.reload();
    const answer = await ask(page, 'markdown');
    await answer.locator('math').first().waitFor();
    await answer.locator('.hl-keyword').first().waitFor();
    assert.deepEqual([...paths].filter((path) => !/^\/(assets\/\w+-HASH\.(js|css))?$/.test(path)).sort(), [
      '/v1/chat/completions', '/v1/models',
    ]);
    assert.equal(server.requests.length, 1);
  }));
