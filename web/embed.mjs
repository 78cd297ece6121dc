// SPDX-License-Identifier: Apache-2.0
// Turns the built page into a C++ source that defines hone::web::WebAssets() (src/web/web_assets.h).
// The same files give the same source. Usage: node embed.mjs DIST OUT.cc
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const kContentTypes = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
};
const kLineBytes = 96;

function filesBelow(folder, prefix = '') {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const name = `${prefix}/${entry.name}`;
    return entry.isDirectory() ? filesBelow(folder, name) : [name];
  });
}

// Octal escapes have three digits at most, so what follows cannot join them.
const kLiterals = Array.from({ length: 256 }, (_, byte) => {
  const char = String.fromCharCode(byte);
  return /[ !#-.0-9:->@-[\]-~]/.test(char) ? char : `\\${byte.toString(8).padStart(3, '0')}`;
});
function literal(bytes) {
  const lines = [];
  for (let i = 0; i < bytes.length; i += kLineBytes) {
    lines.push(`    "${Array.from(bytes.subarray(i, i + kLineBytes), (byte) => kLiterals[byte]).join('')}"`);
  }
  return lines.length === 0 ? '    ""' : lines.join('\n');
}

function gzip(bytes) {
  const packed = gzipSync(bytes, { level: 9 });
  packed.fill(0, 4, 8); // time
  packed[9] = 255; // operating system: unknown
  return packed.length < bytes.length ? packed : Buffer.alloc(0);
}

export function assetsSource(folder) {
  const paths = filesBelow(folder).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  if (!paths.includes('/index.html')) throw new Error(`${folder} has no index.html: run npm run build`);
  let data = '';
  const rows = paths.map((path, i) => {
    const type = kContentTypes[extname(path)];
    if (!type) throw new Error(`${path}: no content type for ${extname(path)}; add it to web/embed.mjs`);
    const bytes = readFileSync(join(folder, path));
    const packed = gzip(bytes);
    data += `constexpr char kBytes${i}[] =\n${literal(bytes)};\nconstexpr char kGzip${i}[] =\n${literal(packed)};\n`;
    const hash = createHash('sha256').update(bytes).digest('hex');
    const immutable = /-[\w-]{8}\.\w+$/.test(path);
    return `    {"${path}", "${type}", {kBytes${i}, ${bytes.length}}, {kGzip${i}, ${packed.length}},\n     "${hash}", ${immutable}},\n`;
  });
  return `// Written by web/embed.mjs.
#include "web/web_assets.h"

namespace hone::web {
namespace {

${data}
constexpr WebAsset kAssets[] = {
${rows.join('')}};

}  // namespace

std::span<const WebAsset> WebAssets() { return kAssets; }

}  // namespace hone::web
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, out] = process.argv.slice(2);
  if (!folder || !out) {
    console.error('usage: node embed.mjs DIST OUT.cc');
    process.exit(2);
  }
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, assetsSource(folder));
}
