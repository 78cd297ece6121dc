// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from 'node:fs';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { dependencies } from './package.json';

// The licences of the libraries in the page go where the page goes.
function licences(): Plugin {
  return {
    name: 'licences',
    generateBundle() {
      const parts = Object.entries(dependencies).map(([name, version]) => {
        const folder = new URL(`./node_modules/${name}/`, import.meta.url);
        const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
        if (!file) throw new Error(`node_modules/${name} has no licence file`);
        return `${name} ${version}\n\n${readFileSync(new URL(file, folder), 'utf8').trim()}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: parts.join(`\n${'-'.repeat(80)}\n\n`) });
    },
  };
}

// The page must work under a policy without inline scripts and styles and without any other host:
// everything is a file of its own, named by its content, and addressed relative to the page.
export default defineConfig({
  base: './',
  plugins: [licences()],
  // The server of `npm run dev` hands API calls to a running `hone serve`.
  server: { proxy: { '/v1': 'http://127.0.0.1:8080', '/models': 'http://127.0.0.1:8080' } },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  test: { environment: 'jsdom', include: ['src/**/*.test.{ts,tsx}'] },
});
