import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();
const MIB = 1_048_576;
const TOKEN = 'operator-token-of-the-tests';

type Sent = { path: string; headers?: Record<string, string>; bytes: number; isChunked?: boolean };

/** Sends a whole request before it reads a byte, as many clients do. Rejects if the connection breaks before. */
async function writeThenRead({
  path,
  headers = {},
  bytes,
  isChunked = false,
}: Sent): Promise<{ status: number; head: string; body: string }> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.pause();
  const length = isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes) };
  const lines = Object.entries({ host: 'localhost', 'content-type': 'application/json', ...length, ...headers });
  const content = Buffer.alloc(bytes, ' ');
  const body = isChunked ? Buffer.concat([Buffer.from(`${bytes.toString(16)}\r\n`), content, Buffer.from('\r\n0\r\n\r\n')]) : content;
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject);
      socket.write(`POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
      socket.write(body, (error) => (error ? reject(error) : resolve()));
    });
    const [head = '', rest = ''] = (await text(socket)).split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), head, body: rest };
  } finally {
    socket.destroy();
  }
}

const DOORS: [string, Omit<Sent, 'bytes'>, number, string][] = [
  ['/jobs', { path: '/jobs', headers: { 'x-fetchbox-job-type': 'default' } }, 413, 'PAYLOAD_TOO_LARGE'],
  ['/operators', { path: '/operators/orgs', headers: { authorization: `Bearer ${TOKEN}` } }, 413, 'PAYLOAD_TOO_LARGE'],
  ['/v1', { path: '/v1/clients' }, 413, 'RFA_REQUEST_PAYLOAD_TOO_LARGE'],
  ['/queue/v1', { path: '/queue/v1/jobs/search' }, 400, 'PAYLOAD_TOO_LARGE'],
];

test.each(DOORS)(
  'a client of %s that sends a body over the limit before it reads sees the refusal [FB-1.58] [C72]',
  async (door, sent, status, code) => {
    const key: Record<string, string> = door === '/queue/v1' ? { authorization: `Bearer ${await queueKey()}` } : {};
    for (const isChunked of [false, true]) {
      const answer = await writeThenRead({ ...sent, headers: { ...sent.headers, ...key }, bytes: 24 * MIB, isChunked });
      expect([isChunked, answer.status]).toEqual([isChunked, status]);
      expect(JSON.stringify(JSON.parse(answer.body))).toContain(code);
      expect(answer.head.toLowerCase()).toContain('connection: close');
    }
  },
);

test('a client without a key that sends a large body before it reads sees that', async () => {
  const answer = await writeThenRead({ path: '/queue/v1/jobs', bytes: 24 * MIB });
  expect([answer.status, JSON.parse(answer.body).code]).toEqual([401, 'UNAUTHORIZED']);
});

test('the server reads 64 MiB of a refused body and not much more', async () => {
  const sent = { path: '/jobs', headers: { 'x-fetchbox-job-type': 'default' }, bytes: 160 * MIB };
  await expect(writeThenRead(sent)).rejects.toThrow(/ECONNRESET|EPIPE/);
  expect((await server.get('/health', null)).status).toBe(200);
});

async function queueKey(): Promise<string> {
  const { org_id: orgId } = (await server.operate('POST', '/orgs', { body: { name: 'sender' } })).body;
  const { api_key: key } = (await server.operate('POST', `/orgs/${orgId}/keys`, { body: { scopes: ['jobs:read'] } })).body;
  return key;
}
