// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from 'vitest/config';

// The page must work under a policy without inline scripts and styles and without any other host:
// everything is a file of its own, named by its content, and addressed relative to the page.
export default defineConfig({
  base: './',
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
