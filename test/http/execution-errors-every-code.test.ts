/** Every error of the execution API, brought about by a request. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PROBLEM_CODES, PROBLEMS, type ProblemCode } from '../../src/http/execution/problem-codes.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { openRoad } from '../ledger/database-road.ts';
import { LOCK_JOBS, whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';
import { type Answer, useExecution } from './execution-fixture.ts';
import { moveIntoMinute } from './limits-fixture.ts';

const server = useExecution();

/** A server that reaches the database by a road of its own, and the road. */
async function onARoad() {
  const { road, database } = await openRoad(server.ledger.db.url);
  const engine = await server.newEngine(database);
  const url = await server.listen({ engine });
  return { road, url };
}

/** A client whose jobs the database refuses to store, with this SQLSTATE. */
async function refusedByTheDatabase(sqlState = 'P0001') {
  const client = await server.client();
  const name = `refuse_${client.clientId.replaceAll('-', '')}`;
  await server.ledger.db.maintenance.query(`
    CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql
      AS $$BEGIN RAISE EXCEPTION 'no more jobs' USING ERRCODE = '${sqlState}'; END$$;
    CREATE TRIGGER ${name} BEFORE INSERT ON millrace.jobs FOR EACH ROW
      WHEN (NEW.org_id = '${client.clientId}') EXECUTE FUNCTION ${name}()`);
  return client;
}

const lifetimeOfNothing = { keyLifetimeMs: 1 };
const EXECUTE = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' };

type Provoke = () => Promise<Answer>;

const CASES: Record<ProblemCode, Provoke> = {
  RFA_REQUEST_MALFORMED: async () => (await server.client()).post('/jobs', '{"type":'),
  RFA_JOB_VALIDATION_FAILED: async () => (await server.client()).post('/jobs', { type: 'SOMETHING' }),
  RFA_REQUEST_UNKNOWN_HOST: async () => {
    const nobody = server.nobody().at(await server.listen({ trustProxy: 1 }));
    return nobody.get('/health', {}, { 'x-forwarded-host': 'rebound.example' });
  },
  RFA_AUTH_INVALID_CREDENTIALS: () => server.nobody().get('/jobs'),
  RFA_AUTH_TOKEN_EXPIRED: async () => {
    const nobody = server.nobody().at(await server.listen({ settings: lifetimeOfNothing }));
    const { client_id } = (await nobody.post('/clients')).body;
    const { api_key } = (await nobody.post(`/clients/${client_id}/keys`, {})).body;
    const holder = nobody.holding(api_key);
    await until('the key has expired', async () => (await holder.get('/jobs')).status, 401);
    return holder.get('/jobs');
  },
  RFA_AUTH_FORBIDDEN: async () => {
    const jobId = await (await server.client()).submit();
    return (await server.client()).get(`/jobs/${jobId}`);
  },
  RFA_AUTH_API_KEY_DISABLED: async () => {
    const client = await server.client();
    const [key] = (await client.get('/clients/me')).body.keys;
    await client.post(`/clients/${client.clientId}/keys/revoke`, { key_id: key.key_id });
    return client.get('/jobs');
  },
  RFA_REQUEST_CROSS_SITE: () => server.nobody().post('/clients', undefined, { origin: 'https://other.example' }),
  RFA_JOB_NOT_FOUND: async () => (await server.client()).get(`/jobs/${randomUUID()}`),
  RFA_CLIENT_NOT_FOUND: () => server.nobody().post(`/clients/${randomUUID()}/keys`, {}),
  RFA_KEY_NOT_FOUND: async () => {
    const client = await server.client();
    return client.post(`/clients/${client.clientId}/keys/revoke`, { key_id: 'k_none' });
  },
  RFA_WEBHOOK_NOT_FOUND: async () => (await server.client()).get(`/webhooks/${randomUUID()}`),
  RFA_REQUEST_NOT_FOUND: async () => (await server.client()).get('/nothing'),
  RFA_REQUEST_METHOD_NOT_ALLOWED: async () => (await server.client()).send('DELETE', '/jobs'),
  RFA_REQUEST_NOT_ACCEPTABLE: async () => (await server.client()).get('/jobs', {}, { accept: 'text/html' }),
  RFA_JOB_CONFLICT: async () => {
    const profile = { ...server.settings.profile, maxAttempts: 1 };
    const client = (await server.client()).at(await server.listen({ settings: { profile } }));
    const jobId = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(jobId, 'FAILED');
    return client.post(`/jobs/${jobId}/retry`);
  },
  // The other process still trusts what it knows of the key, and learns from the ledger that it was too late.
  RFA_KEY_CONFLICT: async () => {
    const client = await server.client();
    const authenticator = new KeyAuthenticator({ database: server.ledger.db, trustMs: 600_000 });
    const elsewhere = client.at(await server.listen({ authenticator }));
    await elsewhere.get('/clients/me');
    expect((await client.post(`/clients/${client.clientId}/keys`, { rotate: true })).status).toBe(201);
    return elsewhere.post(`/clients/${client.clientId}/keys`, { rotate: true });
  },
  RFA_WEBHOOK_CONFLICT: async () => {
    const client = await server.client();
    const webhook = { url: 'https://93.184.215.14/hook', events: ['*'] };
    expect((await client.post('/webhooks', webhook)).status).toBe(201);
    return client.post('/webhooks', webhook);
  },
  RFA_EXEC_IDEMPOTENCY_CONFLICT: async () => {
    const client = await server.client();
    await client.submit({ idempotency_key: 'once' });
    return client.post('/jobs', { ...EXECUTE, work_kind: 'FAIL_IMMEDIATE', idempotency_key: 'once' });
  },
  RFA_REQUEST_PAYLOAD_TOO_LARGE: async () => {
    const body = { ...EXECUTE, callback: `https://example.com/${'a'.repeat(server.settings.bodyBytes)}` };
    return (await server.client()).post('/jobs', body);
  },
  RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE: async () => (await server.client()).post('/jobs', 'type=EXECUTE', { 'content-type': 'text/plain' }),
  RFA_REQUEST_RATE_LIMITED: async () => {
    const limiter = new OrgRateLimiter({ database: server.ledger.db, requestsPerMinute: 1 });
    const client = (await server.client()).at(await server.listen({ limiter }));
    await moveIntoMinute(server.ledger, 1_000);
    await client.get('/jobs');
    return client.get('/jobs');
  },
  RFA_INTERNAL: async () => {
    const broken = async () => {
      throw new Error('secret of the house');
    };
    return (await server.client()).at(await server.listen({ authenticator: { authenticate: broken } })).get('/jobs');
  },
  RFA_STORAGE_DB_ERROR: async () => (await refusedByTheDatabase()).post('/jobs', EXECUTE),
  RFA_STORAGE_UNAVAILABLE: async () => {
    const client = await server.client();
    const { road, url } = await onARoad();
    await road.close();
    return client.at(url).post('/jobs', EXECUTE);
  },
  RFA_STORAGE_FULL: async () => (await refusedByTheDatabase('53100')).post('/jobs', EXECUTE),
  RFA_EXEC_QUEUE_FULL: async () => (await server.client()).at(await server.listen({ settings: { queueSize: 0 } })).post('/jobs', EXECUTE),
  RFA_EXEC_WORKER_UNAVAILABLE: async () => {
    await server.worker('none');
    const answers: Answer[] = [];
    // A busy machine may need longer than the second that the database has.
    await until('the database answers in time', async () => {
      answers.push(await server.nobody().get('/health'));
      return answers.at(-1)?.body.code !== 'RFA_DEPENDENCY_TIMEOUT';
    });
    await server.worker('start');
    return answers.at(-1) as Answer;
  },
  RFA_CONFIG_INVALID: async () => {
    const settings = { registration: 'token', bootstrapToken: null } as const;
    return server
      .nobody()
      .at(await server.listen({ settings }))
      .post('/clients');
  },
  RFA_EXEC_TIMEOUT: async () => {
    const client = (await server.client()).at(await server.listen({ requestTimeoutMs: 100 }));
    const holder = { url: server.ledger.db.url, text: LOCK_JOBS };
    return whileHolding(holder, () => client.get(`/jobs/${randomUUID()}`));
  },
  RFA_DEPENDENCY_TIMEOUT: async () => {
    const { road, url } = await onARoad();
    road.block();
    return server.nobody().at(url).get('/health');
  },
};

// Told to the caller so that it can wait; the others would be the same at once.
const WAITS: readonly number[] = [429, 503];

const IDS: Partial<Record<ProblemCode, string>> = {
  RFA_REQUEST_MALFORMED: '[FR-14.71]',
  RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE: '[FR-14.72]',
  RFA_REQUEST_METHOD_NOT_ALLOWED: '[FR-14.73]',
  RFA_REQUEST_NOT_ACCEPTABLE: '[FR-14.74]',
  RFA_REQUEST_PAYLOAD_TOO_LARGE: '[FR-14.75]',
  RFA_JOB_VALIDATION_FAILED: '[FR-14.76]',
  RFA_AUTH_INVALID_CREDENTIALS: '[FR-14.77]',
  RFA_AUTH_TOKEN_EXPIRED: '[FR-14.78]',
  RFA_AUTH_FORBIDDEN: '[FR-14.79]',
  RFA_AUTH_API_KEY_DISABLED: '[FR-14.80]',
  RFA_JOB_NOT_FOUND: '[FR-14.81]',
  RFA_JOB_CONFLICT: '[FR-14.82]',
  RFA_EXEC_IDEMPOTENCY_CONFLICT: '[FR-14.83]',
  RFA_REQUEST_RATE_LIMITED: '[FR-14.84]',
  RFA_INTERNAL: '[FR-14.85]',
  RFA_STORAGE_DB_ERROR: '[FR-14.86]',
  RFA_STORAGE_UNAVAILABLE: '[FR-14.87]',
  RFA_EXEC_QUEUE_FULL: '[FR-14.88]',
  RFA_EXEC_WORKER_UNAVAILABLE: '[FR-14.89]',
  RFA_EXEC_TIMEOUT: '[FR-14.90]',
  RFA_DEPENDENCY_TIMEOUT: '[FR-14.91]',
  RFA_CONFIG_INVALID: '[FR-14.92]',
};

describe('every error of the execution API can be met, and the next job succeeds [FR-19.03]', () => {
  const provoked = Object.keys(CASES) as (keyof typeof CASES)[];

  it.each(provoked.map((code) => [code, IDS[code] ?? ''] as const))('%s %s', async (code) => {
    const { status, body, headers } = await CASES[code]();
    expect([body.code, status]).toEqual([code, PROBLEMS[code].status]);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toMatchObject({ status, title: PROBLEMS[code].title, instance: headers.get('x-request-id') });
    expect(body.detail).toContain(PROBLEMS[code].action);
    // The address of a page is not made of a host that the server refused.
    const page = code === 'RFA_REQUEST_UNKNOWN_HOST' ? '' : 'http://127\\.0\\.0\\.1:\\d+';
    expect(body.type).toMatch(new RegExp(`^${page}/docs/errors/${code}$`));
    if (WAITS.includes(status)) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(JSON.stringify(body)).not.toMatch(/secret of the house|no more jobs|millrace\.jobs/);
    const client = await server.client();
    expect(await client.reached(await client.submit(), 'SUCCEEDED')).toMatchObject({ outcome: 'SUCCESS' });
  });

  it('is listed here', () => {
    expect([...provoked].sort()).toEqual([...PROBLEM_CODES].sort());
  });
});
