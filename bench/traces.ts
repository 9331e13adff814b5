// What traces cost, as people deploy them: jobs are submitted over HTTP and run by the same server, in turns with a server that sends its traces to
// a collector, one trace in a hundred. Servers, callers and collector are processes of their own or of this one.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { drive, type Process, type Server, start, startServer, stop } from './http.ts';
import { median } from './workload.ts';

export const TRACED_SHARE = 0.9;
const LOAD = {
  client: 'raw',
  path: '/queue/v1/jobs',
  body: JSON.stringify({ type: 'noop', payload: { to: 'someone@example.com' } }),
} as const;
const WARM_UP_TURNS = 2;
const TURNS = 6;
const PAIRS = 3;

/** Jobs a second that were submitted and run. */
export type TraceFigures = { plain: number; traced: number; share: number; spans: number };

export async function measureTraces(fresh: (name: string) => Promise<string>, { quick }: { quick: boolean }): Promise<TraceFigures> {
  const collector = await openCollector();
  const caller = start('./http-load.ts', []);
  const turns: Turn[] = [];
  try {
    // Two servers of one kind differ by up to 10 % for as long as they run. So there are several pairs.
    for (let pair = 0; pair < (quick ? 1 : PAIRS); pair++)
      turns.push(...(await measurePair({ fresh, caller, collector: collector.url, quick, tracedFirst: pair % 2 === 1 })));
  } finally {
    await stop(caller);
    collector.close();
  }
  return {
    plain: Math.round(median(turns.map((turn) => turn.plain))),
    traced: Math.round(median(turns.map((turn) => turn.traced))),
    share: median(turns.map((turn) => turn.traced / turn.plain)),
    spans: collector.spans(),
  };
}

type Turn = { plain: number; traced: number };
type Pair = { fresh(name: string): Promise<string>; caller: Process; collector: string; quick: boolean; tracedFirst: boolean };

async function measurePair({ fresh, caller, collector, quick, tracedFirst }: Pair): Promise<Turn[]> {
  const [plainUrl, tracedUrl] = [await fresh('untraced'), await fresh('traced')];
  const startPlain = () => startServer('./http-server.ts', ['running', plainUrl]);
  const startTraced = () => startServer('./http-server.ts', ['running', tracedUrl, collector]);
  const early = await (tracedFirst ? startTraced() : startPlain());
  const late = await (tracedFirst ? startPlain() : startTraced());
  const [plain, traced] = tracedFirst ? [late, early] : [early, late];
  const turns: Turn[] = [];
  try {
    for (let turn = 0; turn < WARM_UP_TURNS + (quick ? 3 : TURNS); turn++) {
      const ofPlain = () => rateOf(plain, { caller, url: plainUrl, quick });
      const ofTraced = () => rateOf(traced, { caller, url: tracedUrl, quick });
      const first = await (turn % 2 === 0 ? ofPlain() : ofTraced());
      const second = await (turn % 2 === 0 ? ofTraced() : ofPlain());
      turns.push(turn % 2 === 0 ? { plain: first, traced: second } : { plain: second, traced: first });
    }
  } finally {
    await Promise.all([plain, traced].map(stop));
  }
  return turns.slice(WARM_UP_TURNS);
}

type Parts = { caller: Process; url: string; quick: boolean };

/** Submits for a while, and waits until every job has ended. The org of the system has maintenance jobs for later. */
async function rateOf(server: Server, { caller, url, quick }: Parts): Promise<number> {
  const startedMs = performance.now();
  const { answered, refused } = await drive(caller, server, { ...LOAD, key: server.key, forMs: quick ? 500 : 2_000 });
  if (refused > 0) throw new Error(`${refused} requests were refused`);
  const client = new pg.Client(url);
  await client.connect();
  const left = `SELECT EXISTS (SELECT FROM millrace.jobs WHERE state < 'completed' AND org_id <> '00000000-0000-4000-8000-000000000001') AS "isLeft"`;
  while ((await client.query(left)).rows[0].isLeft) await sleep(20);
  await client.end();
  return (answered / (performance.now() - startedMs)) * 1_000;
}

async function openCollector() {
  let spans = 0;
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      spans += body.split('"spanId"').length - 1;
      response.setHeader('content-type', 'application/json').end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans: () => spans, close: () => server.close() };
}
