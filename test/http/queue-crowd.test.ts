/** A server with few connections, and many more callers at once than may wait for one. */
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Http } from '../../src/http/door.ts';
import { buildServer } from '../../src/http/server.ts';
import type { Identity } from '../../src/http/shared/identity.ts';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { useLedger } from '../ledger/fixture.ts';
import { watchStatements } from './auth-fixture.ts';
import { waitLonger } from './patient-pools.ts';
import { queueDoor } from './queue-door.ts';

const CALLERS = 64;
const POOL = 4;
const UNLIMITED = { allowed: true, limit: 1, remaining: 1, resetMs: 1 };

const ledger = useLedger();
let [database, http, url, orgId]: [Database?, Http?, string?, string?] = [];

beforeAll(async () => {
  // Nobody is refused because the machine is busy.
  const apiBounds = { maxWaiting: 2 * POOL, patienceMs: 60_000, longestWaitMs: 60_000 };
  database = openDatabase({ url: ledger.db.url, apiPool: POOL, apiBounds });
  waitLonger(database);
  const engine = createEngine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  orgId = await ledger.newOrg();
  const identity: Identity = { orgId, keyId: 'k', projectId: null, scopes: new Set(API_KEY_SCOPES), isSelfRegistered: false };
  http = await buildServer({
    ...{ engine, doors: [queueDoor], version: '0.0.0-test' },
    authenticator: { authenticate: async () => identity },
    limiter: { take: () => UNLIMITED },
    requestTimeoutMs: 60_000,
  });
  await http.listen({ port: 0, host: '127.0.0.1' });
  url = `http://127.0.0.1:${(http.server.address() as AddressInfo).port}/queue/v1`;
});

afterAll(async () => {
  http?.server.closeAllConnections();
  await http?.close();
  await database?.close();
});

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answer = { status: number; body: any };

async function call(method: string, path: string, sent?: unknown): Promise<Answer> {
  const body = sent === undefined ? undefined : JSON.stringify(sent);
  const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { method, headers, body });
  return { status: response.status, body: await response.json() };
}

const job = (more: object = {}) => ({ type: 'nobody', payload: {}, ...more });

async function submitted(count: number): Promise<string[]> {
  const { body } = await call('POST', '/jobs/batch', { jobs: Array.from({ length: count }, () => job()) });
  return body.results.map(({ job_id }: { job_id: string }) => job_id);
}

/** Everybody at once, one call after the other; a job of its own for each caller, and one that all share. */
async function crowd(ask: (id: string, shared: string) => Promise<Answer>): Promise<Answer[]> {
  const ids = await submitted(CALLERS + 1);
  const shared = ids.pop() as string;
  const rounds = ids.map(async (id) => [await ask(id, shared), await ask(id, shared)]);
  return (await Promise.all(rounds)).flat();
}

const OPERATIONS: Record<string, (id: string, shared: string) => Promise<Answer>> = {
  submit: () => call('POST', '/jobs', job()),
  'submit with a key': (id) => call('POST', '/jobs', job({ idempotency_key: id })),
  'submit with one key': (_, shared) => call('POST', '/jobs', job({ idempotency_key: shared })),
  'submit after one job': (_, shared) => call('POST', '/jobs', job({ depends_on: [shared] })),
  'submit a batch': () => call('POST', '/jobs/batch', { jobs: [job(), job()] }),
  'submit a batch with keys': (id) => call('POST', '/jobs/batch', { jobs: [job({ idempotency_key: `b-${id}` })] }),
  get: (id) => call('GET', `/jobs/${id}`),
  'get with history': (id) => call('GET', `/jobs/${id}?include_history=true`),
  list: () => call('GET', '/jobs?limit=5'),
  search: () => call('POST', '/jobs/search', { types: ['nobody'], limit: 5 }),
  count: () => call('GET', '/stats'),
  cancel: (id) => call('POST', `/jobs/${id}/cancel`),
  'cancel one job': (_, shared) => call('POST', `/jobs/${shared}/cancel`),
  'cancel by ids': (id) => call('POST', '/jobs/cancel', { job_ids: [id] }),
  change: (id) => call('PATCH', `/jobs/${id}`, { tags: { a: 'b' } }),
  retry: (id) => call('POST', `/jobs/${id}/retry`),
  explain: (id) => call('GET', `/jobs/${id}/explain`),
  'search failures': () => call('POST', '/failures/search'),
};

it.each(Object.entries(OPERATIONS))('a crowd that wants to %s is served to the last', async (_, ask) => {
  const answers = await crowd(ask);
  expect([...new Set(answers.map(({ status }) => status))].filter((status) => status >= 300)).toEqual([]);
});

it('concurrent cancellations share a statement, and each caller gets its own result', async () => {
  const ids = await submitted(CALLERS);
  const names = watchStatements();
  const asked = [...ids, ...ids.slice(0, 3), crypto.randomUUID()];
  const answers = await Promise.all(asked.map((id) => call('POST', `/jobs/${id}/cancel`, { reason: 'enough' })));
  expect(answers.map(({ body }) => body.job_id)).toEqual(asked);
  expect(answers.filter(({ body }) => body.status === 'CANCELLED')).toHaveLength(CALLERS);
  expect(answers.filter(({ body }) => body.status === 'ALREADY_COMPLETE')).toHaveLength(3);
  expect(answers.at(-1)?.status).toBe(404);
  expect(names.filter((name) => name === 'cancel_jobs').length).toBeLessThan(CALLERS / 2);
});

it('who reads histories at one moment shares a statement, and sees its own', async () => {
  const ids = await submitted(CALLERS);
  await call('POST', `/jobs/${ids[7]}/cancel`);
  const names = watchStatements();
  const answers = await Promise.all(ids.map((id) => call('GET', `/jobs/${id}?include_history=true`)));
  expect(answers.map(({ body }) => body.job_id)).toEqual(ids);
  expect(answers.map(({ body }) => body.history.length)).toEqual(ids.map((_, index) => (index === 7 ? 2 : 1)));
  expect(names.filter((name) => name === 'job_histories_of_orgs').length).toBeLessThan(CALLERS / 2);
});
