// SPDX-License-Identifier: Apache-2.0
// A scripted server with the API of `hone serve` and the built page, for the tests of the page.
// What it answers follows from the last user message: the name of a script, maybe with words behind.
// Alone: node tests/web/mock_server.mjs [PORT]
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { kMarkdownSample, kXssSample } from './samples.mjs';

const kDist = fileURLToPath(new URL('../../web/dist/', import.meta.url));
export const kPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kTypes = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.txt': 'text/plain; charset=utf-8' };
const kRoom = 4096; // tokens of context

const words = (text) => text.match(/\s*\S+\s*/g) ?? [];
const content = (text) => words(text).map((piece) => ({ content: piece }));
const thinking = (text) => words(text).map((piece) => ({ reasoning_content: piece }));
const count = (messages) => messages.reduce((sum, m) => sum + words(String(m.content ?? '')).length + 4, 0);

// One tool call, its arguments in small pieces.
function toolCall(index, id, name, args) {
  const pieces = JSON.stringify(args).match(/[^]{1,5}/g);
  return [
    { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
    ...pieces.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
  ];
}

// name -> (request, words behind the name, server) => { deltas, delayMs, holdAt, finish, fail, cut, sliced, error }
const kScripts = {
  echo: (_, rest) => ({ deltas: content(`You said: ${rest}`) }),
  slow: () => ({ deltas: content(Array.from({ length: 2000 }, (_, i) => `word${i}`).join(' ')), delayMs: 15 }),
  silent: () => ({ deltas: content('too late'), firstDelayMs: 60_000 }),
  count: (_, __, server) => ({ deltas: content(`Answer number ${++server.counter}.`) }),
  think: () => {
    const first = thinking('First I look at the question. Then I add the numbers.');
    return { deltas: [...first, ...content('The sum is **5**.')], delayMs: 60, holdAt: first.length };
  },
  markdown: () => ({ deltas: content(kMarkdownSample) }),
  xss: () => ({ deltas: content(kXssSample) }),
  raw: (_, rest) => ({ deltas: [{ content: rest }] }),
  sliced: () => ({ deltas: content('Grüße, 世界! 👩🏽‍🚀 done'), sliced: true }),
  long: () => ({ deltas: content(Array.from({ length: 60 }, (_, i) => `Paragraph ${i} of a long answer.\n\n`).join('')) }),
  warned: () => ({ deltas: content('Short.'), more: { warnings: ['2 old turns were left out'], ignored_fields: ['top_k'] } }),
  cutoff: () => ({ deltas: content('This answer is cut'), finish: 'length' }),
  broken: () => ({ deltas: content('Half of an answer and then'), cut: true }),
  late: () => ({ deltas: content('It begins and'), fail: { message: 'the model went away', type: 'server_error', code: 'gone' } }),
  busy: () => ({ error: [503, { message: 'The queue is full.', type: 'overloaded_error', param: null, code: 'queue_full' }, { 'Retry-After': '7' }] }),
  field: () => ({ error: [400, { message: 'temperature must be at most 2', type: 'invalid_request_error', param: 'temperature', code: null }] }),
  html: () => ({ error: [502, null] }),
  tools: (request) => {
    const last = request.messages.at(-1);
    if (last.role === 'tool') return { deltas: content(`The tool said: ${last.content}`) };
    return {
      deltas: [
        ...content('I look that up.'),
        ...toolCall(0, 'call_1', 'get_weather', { city: 'Zürich', days: 3 }),
        ...toolCall(1, 'call_2', 'now', {}),
      ],
      finish: 'tool_calls',
    };
  },
  // Says how much was sent; refuses more than a few messages.
  overflow: (request, _, server) => {
    if (request.messages.length <= server.maxMessages) return { deltas: content(`It fits: ${request.messages.length} messages.`) };
    const error = {
      message: `the prompt has 5000 tokens and the context ${kRoom}`,
      type: 'exceed_context_size_error', param: 'messages', code: 'context_length_exceeded', n_prompt_tokens: 5000, n_ctx: kRoom,
    };
    return { error: [400, error] };
  },
};

function scriptFor(request, server) {
  const user = request.messages.findLast((m) => m.role === 'user')?.content ?? '';
  const line = user.split('\n\n').at(-1); // two user messages in a row are sent as one
  const name = /^[a-z]+/.exec(line)?.[0] ?? '';
  const script = kScripts[name] ?? kScripts.echo;
  return script(request, user.slice(name.length).trim(), server);
}

function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

async function readBody(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

async function streamAnswer(request, body, response, server) {
  const script = scriptFor(body, server);
  if (script.error) {
    const [status, error, headers] = script.error;
    if (error) return sendJson(response, status, { error }, headers);
    response.writeHead(status, { 'Content-Type': 'text/html' });
    return response.end('<html><body>Bad Gateway</body></html>');
  }
  let gone = false;
  response.on('close', () => {
    gone = !response.writableFinished;
    if (gone) server.aborted++;
  });
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  response.write(': the prompt is being read\n\n');
  const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: body.model };
  const send = (extra) => write(response, `data: ${JSON.stringify({ ...base, ...extra })}\r\n\r\n`, script.sliced);
  if (script.firstDelayMs) await waitFor(() => gone, script.firstDelayMs);
  await send({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] });
  for (const [index, delta] of script.deltas.entries()) {
    if (index === script.holdAt) await server.held;
    if (gone) return undefined;
    await send({ choices: [{ index: 0, delta, finish_reason: null }] });
    if (script.delayMs) await sleep(script.delayMs);
  }
  if (script.cut) {
    await sleep(200); // what was written arrives first
    return response.destroy();
  }
  if (script.fail) {
    await write(response, `data: ${JSON.stringify({ error: script.fail })}\n\n`);
    return response.end();
  }
  await send({ choices: [{ index: 0, delta: {}, finish_reason: script.finish ?? 'stop' }], ...script.more });
  const prompt = server.promptTokens ?? count(body.messages);
  if (body.stream_options?.include_usage) {
    await send({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: script.deltas.length, total_tokens: prompt + script.deltas.length } });
  }
  await write(response, 'data: [DONE]\n\n');
  return response.end();
}

async function waitFor(condition, ms) {
  for (let t = 0; t < ms && !condition(); t += 50) await sleep(50);
}

// Sliced: five bytes at a time, so that characters and lines are cut.
async function write(response, text, sliced = false) {
  if (!sliced) return void response.write(text);
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.length; i += 5) {
    response.write(bytes.subarray(i, i + 5));
    await sleep(0);
  }
}

function importModel(body, response, server) {
  if (!server.importAllowed) {
    return sendJson(response, 403, { error: { message: 'start it with the option that allows imports', type: 'permission_error', param: null, code: 'import_not_allowed' } });
  }
  if (!body.path.endsWith('.litertlm')) {
    return sendJson(response, 400, { error: { message: `${body.path}: no such file`, type: 'invalid_request_error', param: 'path', code: null } });
  }
  server.imports.push(body);
  const id = body.path.split('/').at(-1).replace(/\.litertlm$/, '');
  server.models.push({ id, object: 'model', context_length: body.context ?? kRoom });
  return sendJson(response, 200, { id, object: 'model' });
}

async function serveFile(path, response) {
  const name = normalize(path === '/' ? 'index.html' : path.slice(1));
  if (name.startsWith('..')) return sendJson(response, 404, { error: { message: 'not found' } });
  try {
    const bytes = await readFile(join(kDist, name));
    response.writeHead(200, {
      'Content-Type': kTypes[extname(name)] ?? 'application/octet-stream',
      'Content-Security-Policy': kPolicy,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    });
    return response.end(bytes);
  } catch {
    return sendJson(response, 404, { error: { message: `no such endpoint: ${path}`, type: 'invalid_request_error', param: null, code: null } });
  }
}

async function handle(server, request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  const isApi = pathname.startsWith('/v1/') || pathname.startsWith('/models/');
  if (isApi && server.apiKey && request.headers.authorization !== `Bearer ${server.apiKey}`) {
    return sendJson(response, 401, { error: { message: 'The API key is missing or wrong.', type: 'authentication_error', param: null, code: 'invalid_api_key' } });
  }
  if (pathname === '/v1/models') return sendJson(response, 200, { object: 'list', data: server.models });
  if (request.method === 'POST' && pathname === '/v1/chat/completions') {
    const body = await readBody(request);
    server.requests.push(body);
    return streamAnswer(request, body, response, server);
  }
  if (request.method === 'POST' && pathname === '/models/import') return importModel(await readBody(request), response, server);
  return serveFile(pathname, response);
}

// A running server: { url, close(), requests, aborted, hold(), go(), … }. Tests change its fields.
// After hold() a script with holdAt waits there for go().
export async function startMockServer(port = 0) {
  const server = {
    apiKey: '',
    importAllowed: false,
    imports: [],
    models: [
      { id: 'tiny-chat', object: 'model', context_length: kRoom },
      { id: 'other-model', object: 'model', context_length: 8192 },
    ],
    requests: [], // bodies of chat completions
    aborted: 0, // streams that the browser closed
    counter: 0,
    maxMessages: 3,
    promptTokens: undefined,
    held: undefined,
    hold: () => {
      server.held = new Promise((resolve) => { server.go = resolve; });
    },
    go: () => undefined,
  };
  const http = createServer((request, response) => {
    handle(server, request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  await new Promise((resolve) => http.listen(port, '127.0.0.1', resolve));
  server.url = `http://127.0.0.1:${http.address().port}/`;
  server.close = () => {
    http.closeAllConnections();
    return new Promise((resolve) => http.close(resolve));
  };
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await startMockServer(Number(process.argv[2] ?? 8080));
  console.log(server.url);
}
