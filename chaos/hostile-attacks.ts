/** What a hostile org does to a server. Each attack is one round that is repeated for as long as the run lasts. */
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

export type Stranger = { clientId: string; key: string };
/** `from`: the address that the hostile org calls from. */
export type Battlefield = { url: string; from: string; signal: AbortSignal; count(status: number): void };
export type Attack = { what: string; atOnce: number; round(field: Battlefield, stranger: Stranger): Promise<void> };

const agent = new Agent({ keepAlive: true, maxSockets: 400 });

type Sent = { method: string; path: string; body?: string | Buffer; headers?: Record<string, string> };

/** Sends a request with the stranger's key. Resolves when it was answered in full, also if the connection breaks. */
function send(field: Battlefield, { key }: Stranger, { method, path, body, headers = {} }: Sent): Promise<number> {
  return new Promise((resolve) => {
    const end = (status: number) => {
      field.count(status);
      resolve(status);
    };
    const options = {
      agent,
      method,
      path,
      localAddress: field.from,
      signal: field.signal,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    };
    const sent = request(field.url, options, (answer: IncomingMessage) => {
      answer.on('error', () => end(0)).on('end', () => end(answer.statusCode ?? 0));
      answer.resume();
    });
    sent.on('error', () => end(0)).end(body);
  });
}

/** A refused caller of this kind does not wait as told, but does not spin either. */
const PAUSE_MS = 20;

const json = (path: string, body: unknown): Sent => ({ method: 'POST', path, body: JSON.stringify(body) });
const get = (path: string): Sent => ({ method: 'GET', path });
const zipped = (path: string, text: string): Sent => ({
  method: 'POST',
  path,
  body: gzipSync(text),
  headers: { 'content-encoding': 'gzip' },
});

const MANY = 300_000;
const bomb = `{"types":[${Array(7_000_000).fill('1').join(',')}]}`;
const members = `{"type":"EXECUTE",${Array.from({ length: MANY }, (_, at) => `"member${at}":1`).join(',')}}`;
const jobs = Array.from({ length: 1_000 }, () => ({ type: 'EXECUTE', payload: { text: 'x'.repeat(1_000) } }));
const BOMB = zipped('/queue/v1/jobs/search', bomb);

const requests = (what: string, atOnce: number, ...each: Sent[]): Attack => ({
  what,
  atOnce,
  async round(field, stranger) {
    for (const one of each) await send(field, stranger, one);
    await sleep(PAUSE_MS);
  },
});

/** Opens connections that send a byte a second: of a head, or of a body that never ends. */
const trickle = (what: string, head: (stranger: Stranger) => string): Attack => ({
  what,
  atOnce: 60,
  async round({ url, from, signal }, stranger) {
    const { port, hostname } = new URL(url);
    const socket = connect({ port: Number(port), host: hostname, localAddress: from });
    socket.on('error', () => {});
    socket.write(head(stranger));
    while (!signal.aborted && !socket.destroyed) {
      await sleep(1_000);
      socket.write('x');
    }
    socket.destroy();
    await sleep(PAUSE_MS);
  },
});

const stream: Attack = {
  what: 'event streams that stay open',
  atOnce: 40,
  round: ({ url, from, signal, count }, { key }) =>
    new Promise<void>((resolve) => {
      const headers = { authorization: `Bearer ${key}` };
      const sent = request(`${url}/queue/v1/events`, { localAddress: from, signal, headers }, (answer) => {
        count(answer.statusCode ?? 0);
        answer.on('error', () => resolve()).on('close', () => resolve());
        answer.resume();
      });
      sent.on('error', () => resolve()).end();
    }).then(() => sleep(PAUSE_MS)),
};

const execution = (kind: string, more: object = {}) => json('/v1/jobs', { type: 'EXECUTE', work_kind: kind, ...more });

export const ATTACKS: readonly Attack[] = [
  requests('a flood of short jobs', 20, execution('SUCCESS_FAST')),
  requests('long jobs for all slots', 8, execution('RUNS_LONG'), execution('RUNS_OVER_TIMEOUT'), execution('SUCCESS_SLOW')),
  requests('batches at the other door', 2, json('/queue/v1/jobs/batch', { jobs })),
  requests('types of the operator', 2, json('/queue/v1/jobs', { type: 'simulate', payload: { duration_ms: 600_000 } })),
  requests('gzip bombs', 4, BOMB, { ...BOMB, path: '/queue/v1/jobs/batch' }, { ...BOMB, path: '/v1/jobs' }),
  requests(
    'unknown members',
    2,
    { method: 'POST', path: '/v1/jobs', body: members },
    { method: 'POST', path: '/queue/v1/jobs', body: members },
  ),
  requests(
    'searches',
    10,
    json('/queue/v1/jobs/search', { limit: 1_000, tags: { a: 'b' } }),
    get('/queue/v1/stats?breakdown_by=TYPE,STATE'),
  ),
  requests('dry runs of a cancellation', 4, json('/queue/v1/jobs/cancel', { filter: {}, dry_run: true })),
  requests('callbacks to one host', 4, execution('SUCCESS_FAST', { callback: 'https://192.0.2.1/hook' })),
  requests('hostile types', 2, json('/queue/v1/jobs', { type: '__proto__' }), get('/queue/v1/stats?breakdown_by=__proto__')),
  trickle('heads that never end', () => 'POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nx-a: '),
  trickle(
    'bodies that never end',
    ({ key }) =>
      `POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: 200000\r\n\r\n{`,
  ),
  stream,
];
