/** Endpoints in a separate process. `/ok` responds at once and notes the time of each event. `/hang` never responds. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';

/** One event at `/ok`: its `webhook-id`, when it arrived, and how old it was. */
export type Arrival = { readonly messageId: string; readonly atMs: number; readonly ageMs: number };

export type Endpoints = {
  readonly url: string;
  /** Returns the events that arrived since the last call. */
  take(): Promise<Arrival[]>;
  close(): Promise<void>;
};

export async function openEndpoints(): Promise<Endpoints> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['serve']);
  const [port] = (await once(child, 'message')) as [number];
  return {
    url: `http://127.0.0.1:${port}`,
    async take() {
      const answer = once(child, 'message');
      child.send('take');
      return (await answer)[0] as Arrival[];
    },
    async close() {
      const gone = once(child, 'exit');
      child.kill();
      await gone;
    },
  };
}

function serve(): void {
  let arrivals: Arrival[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    if (request.url !== '/ok') return;
    const atMs = Date.now();
    const messageId = String(request.headers['webhook-id']);
    arrivals.push({ messageId, atMs, ageMs: atMs - Date.parse(JSON.parse(body).timestamp) });
    response.writeHead(200).end();
  });
  server.listen({ port: 0, host: '127.0.0.1' }, () => process.send?.((server.address() as AddressInfo).port));
  process.on('message', () => {
    process.send?.(arrivals);
    arrivals = [];
  });
}

if (process.argv[2] === 'serve') serve();
