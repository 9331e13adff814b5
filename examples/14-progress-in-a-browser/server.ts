/**
 * Progress in a browser. Your server submits the job and follows it; the page gets its progress and its log lines as server-sent events
 * from your server. The browser needs no API key, and sees only the jobs that your server shows it.
 *
 * Run it, and open the address that it prints. Stop it with Ctrl-C.
 */
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAppError, Millrace } from '../../src/index.ts'; // In your program: from 'millrace'

type Jobs = { render: { payload: { title: string; frames: number } } };

const PAGE = await readFile(new URL('page.html', import.meta.url), 'utf8');
const millrace = await Millrace.open<Jobs>();

millrace.register({
  type: 'render',
  handler: async (context, { title, frames }) => {
    context.log('info', `rendering ${title}`);
    for (let frame = 1; frame <= frames; frame++) {
      await sleep(50, undefined, { signal: context.signal });
      if (frame % 10 === 0) context.log('info', `frame ${frame} is ready`, { frame });
      await context.reportProgress((100 * frame) / frames, `frame ${frame} of ${frames}`);
    }
  },
});
await millrace.start();

const server = createServer((request, response) => {
  serve(request, response).catch((error) => {
    if (!response.headersSent) response.writeHead(isAppError(error, 'NOT_FOUND') ? 404 : 500);
    response.end();
  });
});

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const [, jobId] = /^\/jobs\/([0-9a-f-]{36})\/events$/.exec(pathname) ?? [];
  if (request.method === 'GET' && pathname === '/') {
    const headers = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': "default-src 'self' 'unsafe-inline'" };
    response.writeHead(200, headers).end(PAGE);
  } else if (request.method === 'POST' && pathname === '/jobs') {
    const title = (searchParams.get('title') ?? 'a film').slice(0, 200);
    const { jobId: id } = await millrace.submit({ type: 'render', payload: { title, frames: 40 } });
    response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ jobId: id }));
  } else if (request.method === 'GET' && jobId !== undefined) await stream(jobId, response);
  else response.writeHead(404).end();
}

/** Sends what happened so far and what is new. When the browser leaves, following the job ends. */
async function stream(jobId: string, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  try {
    for await (const { kind, ...news } of millrace.follow(jobId, { signal: gone.signal })) {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write(`event: ${kind}\ndata: ${JSON.stringify(news)}\n\n`);
    }
    response.end();
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

server.listen(Number(process.env.PORT ?? 8485), '127.0.0.1', () => {
  console.log(`open http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
    void millrace.close();
  });
}
