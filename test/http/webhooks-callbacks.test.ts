/** Callbacks are checked by their text when a job is submitted, in every door. */
import { describe, expect, it } from 'vitest';
import { HOSTILE } from '../egress/hostile-urls.ts';
import type { TestClient } from './execution-fixture.ts';
import { useWebhookApi } from './webhook-fixture.ts';

const server = useWebhookApi();

const URLS = [
  ['ftp://public.example/x', 'INVALID_URL'],
  ['nonsense', 'INVALID_URL'],
  ['https://', 'INVALID_URL'],
  ['http://user@public.example/', 'INVALID_URL'],
  ['http://public.example:25/', 'INVALID_URL'],
  ['http://127.0.0.1:8484/', 'FORBIDDEN_ADDRESS'],
  ['http://localhost/', 'FORBIDDEN_ADDRESS'],
  ['http://2130706433/', 'FORBIDDEN_ADDRESS'],
  ['http://[fd00::1]/', 'FORBIDDEN_ADDRESS'],
  ['http://169.254.169.254/', 'FORBIDDEN_ADDRESS'],
] as const;

/** Spellings that can be told by their text; where names lead is looked at when they are called. */
const SPELLINGS = HOSTILE.filter(({ dns }) => dns === undefined).map(({ spelling }) => spelling.replace('{port}', '8484'));

async function queue(client: TestClient, { method = 'POST', path = '/jobs', body }: { method?: string; path?: string; body: object }) {
  const response = await fetch(`${server.url}/queue/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  return { status: response.status, body: (await response.json()) as any };
}

const FUTURE = '2040-01-15T10:30:00Z';
const faultOf = ({ field, code }: { field: string; code: string }) => [field, code];

describe('a callback of a job of the execution API', () => {
  it.each(URLS)('%s is refused: %s [FR-14.18] [FR-08.24]', async (callback, code) => {
    const client = await server.client();
    const { status, body } = await client.post('/jobs', { type: 'EXECUTE', callback });
    expect([status, body.code, body.errors.map(faultOf)]).toEqual([...[400, 'RFA_JOB_VALIDATION_FAILED', [['callback', code]]]]);
    expect((await client.get('/jobs')).body.jobs).toEqual([]);
  });

  it('is refused in every hostile spelling [FR-14.18]', async () => {
    const client = await server.client();
    const accepted: string[] = [];
    for (const callback of SPELLINGS) {
      const { status } = await client.post('/jobs', { type: 'EXECUTE', callback });
      if (status !== 400) accepted.push(callback);
    }
    expect(SPELLINGS.length).toBeGreaterThan(100);
    expect(accepted).toEqual([]);
  });

  it('is taken when it is public, or a name', async () => {
    const client = await server.client();
    for (const callback of ['https://93.184.215.14/a?b=c', 'http://inside.example/']) {
      const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, callback });
      expect((await client.get(`/jobs/${id}`)).body.callback).toBe(callback);
    }
  });
});

describe('a callback of a job of the queue', () => {
  it.each(URLS)('%s is refused: %s [FR-14.18] [GA-1.16]', async (callback_url, code) => {
    const client = await server.org();
    const job = { type: 'anything', payload: {}, callback_url };
    const { status, body } = await queue(client, { body: job });
    expect([status, body.details.map(faultOf)]).toEqual([400, [['callback_url', code]]]);
    const batch = await queue(client, { path: '/jobs/batch', body: { jobs: [job] } });
    expect(JSON.stringify(batch.body)).toContain(code);
    const text = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1';
    expect((await server.ledger.db.api.query(text, [client.clientId])).rows).toEqual([{ count: 0 }]);
  });

  it.each(URLS)('cannot be changed to %s: %s [FR-14.18]', async (callback_url, code) => {
    const client = await server.org();
    const first = 'https://public.example/first';
    const job = { type: 'anything', payload: {}, delay: '1h', callback_url: first };
    const submitted = await queue(client, { body: job });
    const path = `/jobs/${submitted.body.job_id}`;
    const refused = await queue(client, { method: 'PATCH', path, body: { callback_url } });
    expect([refused.status, refused.body.details.map(faultOf)]).toEqual([400, [['callback_url', code]]]);
    const other = 'https://public.example/other';
    const changed = await queue(client, { method: 'PATCH', path, body: { callback_url: other } });
    expect([changed.status, changed.body.callback_url]).toEqual([200, other]);
  });
});
