// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { answers, ask, closeBrowser, finished, openBrowser, send, until, withPage } from './browser.mjs';

before(openBrowser);
after(closeBrowser);

const lastAnswer = (page) => answers(page).last();

test('a message is sent and its answer streams in', () =>
  withPage({}, async ({ page, server }) => {
    const answer = await ask(page, 'echo good morning');
    assert.match(await answer.innerText(), /You said: good morning/);
    const body = server.requests[0];
    assert.deepEqual(body.messages, [{ role: 'user', content: 'echo good morning' }]);
    assert.equal(body.model, 'tiny-chat');
    assert.equal(body.stream, true);
    assert.deepEqual(body.stream_options, { include_usage: true });
    assert.equal(await page.inputValue('#message-box'), '');
    assert.equal('temperature' in body, false); // nothing that nobody chose
  }));

test('history is sent with the second message, and tokens and speed are shown', () =>
  withPage({}, async ({ page, server }) => {
    await ask(page, 'echo one');
    const answer = await ask(page, 'echo two');
    assert.deepEqual(server.requests[1].messages.map((m) => m.role), ['user', 'assistant', 'user']);
    assert.equal(server.requests[1].messages[1].content.trim(), 'You said: one');
    assert.match(await answer.locator('.stats').innerText(), /^\d+ tokens · .*first after/);
    assert.match(await page.getByRole('meter', { name: 'Context' }).getAttribute('aria-valuetext'), /of 4,096 tokens/);
  }));

test('characters that are cut between network packets arrive whole', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, 'sliced');
    assert.match(await answer.innerText(), /Grüße, 世界! 👩🏽‍🚀 done/);
  }));

test('text is seen before the answer is complete, and Stop ends it at the server', () =>
  withPage({}, async ({ page, server }) => {
    await send(page, 'slow');
    await lastAnswer(page).getByText('word3').waitFor();
    assert.equal(await lastAnswer(page).getAttribute('aria-busy'), 'true');
    await page.getByRole('button', { name: 'Stop' }).click();
    await finished(page);
    assert.match(await lastAnswer(page).innerText(), /Stopped\./);
    const length = (await lastAnswer(page).innerText()).length;
    await page.waitForTimeout(300);
    assert.equal((await lastAnswer(page).innerText()).length, length);
    await until(() => server.aborted === 1, 'the server sees the end');
    const next = await ask(page, 'echo still alive'); // the conversation goes on
    assert.match(await next.innerText(), /still alive/);
    assert.match(server.requests[1].messages[1].content, /^word0 word1/);
  }));

test('Esc stops, also before the first token', () =>
  withPage({}, async ({ page, server }) => {
    await send(page, 'silent');
    await lastAnswer(page).getByRole('img', { name: 'Waiting for the first token' }).waitFor();
    await page.keyboard.press('Escape');
    await finished(page);
    assert.match(await lastAnswer(page).innerText(), /Stopped before the first word/);
    await until(() => server.aborted === 1, 'the server sees the end');
  }));

test('Shift+Enter makes a new line, Enter sends, an empty message is not sent', () =>
  withPage({}, async ({ page, server }) => {
    await page.locator('#message-box').press('Enter');
    await page.fill('#message-box', '   ');
    await page.press('#message-box', 'Enter');
    assert.equal(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
    assert.equal(server.requests.length, 0);
    await page.fill('#message-box', '');
    await page.keyboard.type('echo a');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('b');
    await page.keyboard.press('Enter');
    await finished(page);
    assert.equal(server.requests[0].messages[0].content, 'echo a\nb');
  }));

test('Retry makes a branch, and the branches can be walked', () =>
  withPage({}, async ({ page }) => {
    const answer = await ask(page, 'count');
    assert.match(await answer.innerText(), /Answer number 1\./);
    await answer.getByRole('button', { name: 'Retry' }).click();
    await answers(page).getByText('Answer number 2.').waitFor();
    await finished(page);
    assert.match(await lastAnswer(page).innerText(), /2 \/ 2/);
    await lastAnswer(page).getByRole('button', { name: 'Previous branch' }).click();
    await answers(page).getByText('Answer number 1.').waitFor();
    assert.equal(await answers(page).count(), 1);
    await lastAnswer(page).getByRole('button', { name: 'Next branch' }).click();
    await answers(page).getByText('Answer number 2.').waitFor();
  }));

test('editing a message makes a branch that keeps the old one', () =>
  withPage({}, async ({ page, server }) => {
    await ask(page, 'echo first');
    await ask(page, 'echo second');
    const you = page.locator('article[aria-label="You"]').first();
    await you.getByRole('button', { name: 'Edit message' }).click();
    await page.getByRole('textbox', { name: 'Edit your message' }).fill('echo changed');
    await page.getByRole('button', { name: 'Send as new branch' }).click();
    await answers(page).getByText('You said: changed').waitFor();
    await finished(page);
    assert.equal(await answers(page).count(), 1);
    assert.equal(server.requests[2].messages.length, 1);
    await you.getByRole('button', { name: 'Previous branch' }).click();
    await answers(page).getByText('You said: second').waitFor(); // with all that followed
    assert.equal(await answers(page).count(), 2);
  }));

test('Esc leaves the editor without a branch', () =>
  withPage({}, async ({ page, server }) => {
    await ask(page, 'echo first');
    await page.getByRole('button', { name: 'Edit message' }).click();
    await page.getByRole('textbox', { name: 'Edit your message' }).fill('echo other');
    await page.keyboard.press('Escape');
    assert.equal(await page.getByRole('textbox', { name: 'Edit your message' }).count(), 0);
    assert.equal(server.requests.length, 1);
  }));

test('thinking is folded, seen while it comes, and not sent back', () =>
  withPage({}, async ({ page, server }) => {
    server.hold();
    await send(page, 'think');
    await page.getByRole('button', { name: 'Thinking…' }).waitFor();
    await page.locator('.thinking-peek').getByText('look at').waitFor();
    server.go();
    await finished(page);
    const fold = page.getByRole('button', { name: 'Thinking', exact: true });
    assert.equal(await fold.getAttribute('aria-expanded'), 'false');
    assert.equal(await page.getByText('Then I add the numbers').count(), 0);
    assert.match(await lastAnswer(page).innerText(), /The sum is 5\./);
    await fold.click();
    await page.getByText('First I look at the question. Then I add the numbers.').waitFor();
    await ask(page, 'echo next');
    assert.deepEqual(Object.keys(server.requests[1].messages[1]), ['role', 'content']);
  }));

test('tool calls are folded, and their results can be sent', () =>
  withPage({}, async ({ page, server }) => {
    const answer = await ask(page, 'tools');
    const call = answer.locator('details.tool').first();
    assert.match(await call.locator('summary').innerText(), /Tool call: get_weather/);
    assert.equal(await call.getByText('Zürich').isVisible(), false);
    await call.locator('summary').click();
    assert.equal(await call.locator('pre').innerText(), '{\n  "city": "Zürich",\n  "days": 3\n}');
    await page.getByRole('textbox', { name: 'Result of get_weather' }).fill('sunny');
    await page.getByRole('textbox', { name: 'Result of now' }).fill('noon');
    await page.getByRole('button', { name: 'Send the results' }).click();
    await answers(page).getByText('The tool said: noon').waitFor();
    const sent = server.requests[1].messages;
    assert.deepEqual(sent.map((m) => m.role), ['user', 'assistant', 'tool', 'tool']);
    assert.deepEqual(sent[1].tool_calls.map((c) => c.id), ['call_1', 'call_2']);
    assert.equal(sent[1].tool_calls[0].function.arguments, '{"city":"Zürich","days":3}');
    assert.deepEqual(sent[2], { role: 'tool', tool_call_id: 'call_1', content: 'sunny' });
  }));

test('Markdown: headings, table, list, code with colours and a copy button, MathML', () =>
  withPage({}, async ({ page, context, server }) => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
    const answer = await ask(page, 'markdown');
    assert.equal(await answer.getByRole('heading', { name: 'Rotating a vector' }).count(), 1);
    assert.equal(await answer.locator('td').nth(3).innerText(), '90°');
    await answer.locator('.code-block .hl-keyword').first().waitFor();
    await answer.locator('math').first().waitFor();
    assert.equal(await answer.locator('math mtr').count(), 2);
    const namespaces = await answer.locator('math, math *').evaluateAll((list) => [...new Set(list.map((e) => e.namespaceURI))]);
    assert.deepEqual(namespaces, ['http://www.w3.org/1998/Math/MathML']);
    assert.match(await answer.locator('blockquote').innerText(), /\$5 or \$6/);
    await answer.getByRole('button', { name: 'Copy code' }).click();
    await answer.getByRole('button', { name: 'Copied' }).waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^import math\n\ndef rotate/);
    const link = answer.getByRole('link', { name: 'the definition' });
    assert.equal(await link.getAttribute('href'), 'https://example.org/rotation');
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer nofollow');
  }));

test('a long answer is followed, unless the reader scrolls away', () =>
  withPage({}, async ({ page }) => {
    await ask(page, 'long');
    const gap = () => page.locator('.thread').evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
    await until(async () => (await gap()) < 5, 'at the end');
    await page.locator('.thread').evaluate((e) => e.scrollTo({ top: 0 }));
    await page.getByRole('button', { name: 'Go to the end' }).click();
    await until(async () => (await gap()) < 5, 'at the end again');
  }));

test('settings and system prompt are sent, wrong ones are named and cannot be saved', () =>
  withPage({}, async ({ page, server }) => {
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByLabel('System prompt').fill('Be brief.');
    await page.getByLabel('Thinking').selectOption('none');
    await page.getByLabel('Temperature').fill('3');
    await page.getByText('Temperature: a number from 0 to 2').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Save' }).isDisabled(), true);
    await page.getByLabel('Temperature').fill('0.25');
    await page.getByLabel('Longest answer').fill('64');
    await page.getByLabel('Seed').fill('7');
    await page.getByLabel('Stop at').fill('END\nSTOP');
    await page.getByLabel('Tools').fill('[{"type":"function","function":{"name":"now"}}]');
    await page.getByLabel('Use for new conversations').check();
    await page.getByRole('button', { name: 'Save' }).click();
    await ask(page, 'echo x');
    const { messages, temperature, max_tokens, seed, stop, tools, reasoning_effort } = server.requests[0];
    assert.deepEqual(messages[0], { role: 'system', content: 'Be brief.' });
    assert.deepEqual({ temperature, max_tokens, seed, stop, reasoning_effort }, {
      temperature: 0.25, max_tokens: 64, seed: 7, stop: ['END', 'STOP'], reasoning_effort: 'none',
    });
    assert.equal(tools[0].function.name, 'now');
    await page.getByRole('button', { name: 'New chat' }).click();
    await ask(page, 'echo y');
    assert.equal(server.requests[1].messages[0].content, 'Be brief.');
  }));

test('another conversation can be read while an answer comes', () =>
  withPage({}, async ({ page, server }) => {
    await send(page, 'slow');
    await answers(page).getByText('word3').waitFor();
    await page.getByRole('button', { name: 'New chat' }).click();
    const answer = await ask(page, 'echo meanwhile');
    assert.match(await answer.innerText(), /meanwhile/);
    await page.getByRole('navigation', { name: 'Conversations' }).locator('.conversation-title', { hasText: 'slow' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await finished(page);
    assert.ok(((await lastAnswer(page).innerText()).match(/word/g) ?? []).length > 10);
    await until(() => server.aborted === 1, 'the server sees the end');
  }));
