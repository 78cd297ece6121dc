// SPDX-License-Identifier: Apache-2.0

const kEntities: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…',
  mdash: '—', ndash: '–', times: '×', divide: '÷', deg: '°', plusmn: '±', le: '≤', ge: '≥', ne: '≠', rarr: '→', larr: '←',
  middot: '·', bull: '•', laquo: '«', raquo: '»', ldquo: '“', rdquo: '”', lsquo: '‘', rsquo: '’', euro: '€', infin: '∞',
};

// Character references of HTML: by number, and those names that models write.
export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]+));/gi, (all, dec?: string, hex?: string, name?: string) => {
    const code = dec ? Number(dec) : hex ? parseInt(hex, 16) : -1;
    if (code > 0 && code <= 0x10ffff) return String.fromCodePoint(code);
    return (name !== undefined && Object.hasOwn(kEntities, name) && kEntities[name]) || all;
  });
}
