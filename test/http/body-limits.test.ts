import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { submitMany } from '../../src/services/jobs/submit-many.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();
const KIB = 1_024;
const ID = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';

type Sent = { method?: string; path: string; body: string; gzip?: boolean };

/** Sends a body as it is, which may be no valid request. Returns its answer and how large that is. */
async function send({ method = 'POST', path, body, gzip = false }: Sent) {
  const { orgId } = await queue.caller();
  const key = await queue.keyOf(orgId, ['jobs:read', 'jobs:write', 'jobs:cancel', 'failures:read']);
  const response = await fetch(`${queue.url}/queue/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(gzip ? { 'content-encoding': 'gzip' } : {}),
    },
    body: gzip ? new Uint8Array(gzipSync(body)) : body,
  });
  const text = await response.text();
  return { status: response.status, bytes: text.length, body: JSON.parse(text) };
}

const list = (entry: string, count: number): string => `[${`${entry},`.repeat(count - 1)}${entry}]`;
const members = (count: number): string => Array.from({ length: count }, (_, n) => `"priorty${n}":1`).join(',');

const SMALL: [string, string, string][] = [
  ['POST', '/jobs/search', 'types'],
  ['POST', '/failures/search', 'types'],
  ['POST', '/jobs/cancel', 'job_ids'],
  ['POST', `/jobs/${ID}/cancel`, 'reason'],
  ['POST', `/jobs/${ID}/retry`, 'delay'],
  ['PATCH', `/jobs/${ID}`, 'tags'],
];

describe.each(SMALL)('the body of %s %s', (method, path, member) => {
  it.each([false, true])('has at most 256 KB (gzip: %s)', async (gzip) => {
    const { status, body, bytes } = await send({ method, path, body: `{"${member}":${list('1', 200 * KIB)}}`, gzip });
    expect([status, body.details]).toEqual([
      400,
      [{ field: 'body', code: 'PAYLOAD_TOO_LARGE', message: 'body must not be larger than 262144 bytes' }],
    ]);
    expect(bytes).toBeLessThan(KIB);
  });

  it('has at most 10 000 values, so that its errors are few', async () => {
    const { status, body, bytes } = await send({ method, path, body: `{"${member}":${list('1', 100 * KIB)}}` });
    expect([status, body.details[0].code]).toEqual([400, 'TOO_MANY_VALUES']);
    expect(bytes).toBeLessThan(KIB);
  });

  it('is answered with at most twenty errors', async () => {
    for (const sent of [`{"${member}":${list('1', 5_000)}}`, `{${members(3_000)}}`]) {
      const { status, body, bytes } = await send({ method, path, body: sent });
      expect(status).toBe(400);
      expect(body.details.length).toBeLessThanOrEqual(20);
      expect(bytes).toBeLessThan(8 * KIB);
    }
  });
});

describe('a submission', () => {
  it('has room for the largest payload, however it is written, and no more', async () => {
    const escaped = `{"type":"a","payload":{"a":"${'\\u00e9'.repeat(520_000)}"}}`;
    expect(escaped.length).toBeGreaterThan(3_000 * KIB);
    expect((await send({ path: '/jobs', body: escaped })).status).toBe(202);
    const { status, body } = await send({ path: '/jobs', body: `{"type":"a","payload":{"a":"${'x'.repeat(3_400 * KIB)}"}}` });
    expect([status, body.details[0].code]).toEqual([400, 'PAYLOAD_TOO_LARGE']);
  });

  it.each([
    ['members', `{"type":"a","payload":{},${members(20_000)}}`],
    ['members of its backoff', `{"type":"a","payload":{},"backoff":{${members(20_000)}}}`],
    ['members with long names', `{"type":"a","payload":{},"${'x'.repeat(200_000)}":1}`],
    ['tags', `{"type":"a","payload":{},"tags":{${members(20_000)}}}`],
    ['dependencies', `{"type":"a","payload":{},"depends_on":${list('1', 100_000)}}`],
    ['unknown dependencies', `{"type":"a","payload":{},"depends_on":[${ids(1_000)}]}`],
  ])('with very many wrong %s lists the first twenty', async (_what, sent) => {
    const { status, body, bytes } = await send({ path: '/jobs', body: sent });
    expect(status).toBe(400);
    expect(body.details.length).toBeGreaterThan(0);
    expect(body.details.length).toBeLessThanOrEqual(20);
    expect(bytes).toBeLessThan(8 * KIB);
  });

  it('with more values than it may have is refused before it is parsed', async () => {
    const { status, body } = await send({ path: '/jobs', body: `{"type":"a","payload":{"a":${list('[]', 150_000)}}}` });
    expect([status, body.details[0].code]).toEqual([400, 'TOO_MANY_VALUES']);
  });

  it('with a large payload and a key is a repeat of itself, whatever the order of its members', async () => {
    const caller = await queue.caller();
    const long = 'x'.repeat(300 * KIB);
    const first = await caller.post('/jobs', { type: 'a', idempotency_key: 'k', payload: { a: 1, long } });
    const same = await caller.post('/jobs', { type: 'a', idempotency_key: 'k', payload: { long, a: 1 } });
    expect([first.status, same.status, same.body.job_id]).toEqual([202, 200, first.body.job_id]);
    expect((await caller.post('/jobs', { type: 'a', idempotency_key: 'k', payload: { long, a: 2 } })).status).toBe(409);
  });
});

function ids(count: number): string {
  return Array.from({ length: count }, (_, n) => `"3f0c9f5e-0d5b-4c39-9a53-${n.toString(16).padStart(12, '0')}"`).join(',');
}

describe('a batch', () => {
  it('of some megabytes is read in pieces, each with its own result and path', async () => {
    const caller = await queue.caller();
    const jobs = Array.from({ length: 400 }, (_, n) => ({ type: `type-${n}`, payload: { n, text: 'é'.repeat(4_000) } }));
    const { status, body } = await caller.post('/jobs/batch', { atomic: true, jobs });
    expect([status, body.accepted]).toEqual([200, 400]);
    const last = await caller.get(`/jobs/${body.results[399].job_id}`);
    expect(last.body.type).toBe('type-399');
    const poisoned = JSON.stringify({ jobs }).replace('"n":7,', '"n":7,"__proto__":{"a":1},');
    const refused = await send({ path: '/jobs/batch', body: poisoned });
    expect([refused.status, refused.body.details[0].field]).toEqual([400, 'jobs[7].payload.__proto__']);
  });

  it('with very many wrong members in every job lists the first twenty of each', async () => {
    const { status, body, bytes } = await send({
      path: '/jobs/batch',
      body: `{"atomic":false,"jobs":${list(`{"type":"a","payload":{},${members(500)}}`, 200)}}`,
    });
    expect([status, body.rejected]).toEqual([200, 200]);
    for (const { error } of body.results) expect(error.details).toHaveLength(20);
    expect(bytes).toBeLessThan(1_000 * KIB);
  });

  it.each([
    ['numbers', `{"jobs":${list('1', 1_000_000)}}`],
    ['empty objects', `{"jobs":[{"type":"a","payload":{"a":${list('{}', 1_200_000)}}}]}`],
    ['members of the batch', `{"jobs":[],${members(100_000)}}`],
  ])('with too many %s is refused before it is parsed', async (_what, sent) => {
    const { status, body, bytes } = await send({ path: '/jobs/batch', body: sent });
    expect([status, body.details[0].code]).toEqual([400, 'TOO_MANY_VALUES']);
    expect(bytes).toBeLessThan(KIB);
  });

  it('has a bounded number of dependencies in all its jobs', async () => {
    const { status, body } = await send({
      path: '/jobs/batch',
      body: `{"jobs":${list(`{"type":"a","payload":{},"depends_on":[${ids(1_000)}]}`, 101)}}`,
    });
    expect([status, body.details[0]]).toMatchObject([400, { field: 'jobs', code: 'DEPENDENCY_BREADTH' }]);
  });

  it('gives way to other work while it is prepared', async () => {
    const orgId = await queue.ledger.newOrg();
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    const payload = { text: 'x'.repeat(4_096) };
    const submissions = [...Array.from({ length: 999 }, () => ({ type: 'a', payload })), { type: 'a', payload: 1 }];
    setImmediate(count);
    // The last job is not valid, so the database has no part in this.
    const { rejected } = await submitMany(queue.engine, { orgId, submissions, atomic: true, actor: null });
    isOver = true;
    expect(rejected).toBe(1_000);
    expect(turns).toBeGreaterThanOrEqual(15);
  });
});
