// SPDX-License-Identifier: Apache-2.0
// The watchers of the other tests see what they are there for.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axeFaults, closeBrowser, openBrowser, until, withPage } from './browser.mjs';

before(openBrowser);
after(closeBrowser);

const kBad = {
  'a foreign request': [() => void fetch('http://192.0.2.1/x').catch(() => 0), /request to http:\/\/192\.0\.2\.1|policy: connect-src/],
  'a console error': [() => console.error('oops'), /console: oops/],
  'an uncaught error': [() => void setTimeout(() => { throw new Error('lost'); }), /uncaught: lost/],
  'an inline style': [() => document.body.setAttribute('style', 'color:red'), /policy: style-src/],
  'an inline script': [() => { const e = document.createElement('script'); e.textContent = '1'; document.body.append(e); }, /policy: script-src/],
  'an image of another host': [() => { new Image().src = 'http://192.0.2.1/i.png'; }, /policy: img-src/],
  'an alert': [() => void setTimeout(() => alert(1)), /dialog: 1/],
  'a script of the model that ran': [() => { window.pwned = 1; }, /1 !== undefined/],
};
for (const [name, [act, message]] of Object.entries(kBad)) {
  test(`${name} is noticed`, () =>
    assert.rejects(
      withPage({}, async ({ page, faults }) => {
        await page.evaluate(act);
        const ran = () => page.evaluate(() => window.pwned !== undefined);
        await until(async () => faults.some((fault) => message.test(fault)) || (await ran()), name);
      }),
      message,
    ));
}

test('a button without a name and pale text are noticed by axe', () =>
  withPage({}, async ({ page }) => {
    await page.evaluate(() => {
      const button = document.createElement('button');
      const text = document.createElement('p');
      text.textContent = 'pale';
      text.style.color = '#eeeeee';
      document.querySelector('.welcome').append(button, text);
    });
    const faults = await axeFaults(page);
    assert.deepEqual(faults.map((fault) => fault.split(':')[0]).sort(), ['button-name', 'color-contrast']);
  }));
