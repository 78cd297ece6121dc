// SPDX-License-Identifier: Apache-2.0

// The address if a link to it may be followed: http, https or mailto, written out. Everything else
// (javascript:, data:, relative ones that would lead into this server) gives undefined.
export function safeAddress(href: string): string | undefined {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return undefined;
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:' && url.protocol !== 'mailto:') return undefined;
  if (url.username !== '' || url.password !== '') return undefined; // https://bank.example@evil.example
  return url.href;
}
