import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { setOrgRate } from '../../src/ledger/access/orgs.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { LONG } from './execution-work.ts';
import { moveIntoMinute } from './limits-fixture.ts';

const config = (environment: Record<string, string>) => loadConfig({ environment, folder: tmpdir() }).config;
const { activeJobs: ACTIVE_JOBS, profile } = config({ MILLRACE_LIMITS_ACTIVE_JOBS: '2' }).execution;

// Long enough that no job is lost because the machine is busy, or because a test moved the clock.
const patient = { ...profile, timeoutMs: 120_000, leaseMs: 600_000 };
const server = useExecution({ activeJobs: ACTIVE_JOBS, profile: patient });

const jobsOf = async ({ clientId }: TestClient): Promise<number> => {
  const text = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE org_id = $1';
  return (await server.ledger.db.api.query(text, [clientId])).rows[0].count;
};

async function listenWithRate(requestsPerMinute: number): Promise<string> {
  const limiter = new OrgRateLimiter({ database: server.ledger.db, requestsPerMinute });
  return server.listen({ limiter });
}

const submit = (client: TestClient) => client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' });

describe('requests of a client in a minute', () => {
  it('beyond the limit are refused with 429 and Retry-After, and leave no job [FR-14.60] [FR-14.61] [FR-17.01]', async () => {
    const client = (await server.client()).at(await listenWithRate(3));
    const other = (await server.client()).at(await listenWithRate(3));
    await moveIntoMinute(server.ledger, 1_000);
    for (let call = 0; call < 3; call++) expect((await submit(client)).status).toBe(202);
    const { status, body, headers } = await submit(client);
    expect([status, body.code]).toEqual([429, 'RFA_REQUEST_RATE_LIMITED']);
    const waitSeconds = Number(headers.get('retry-after'));
    expect(waitSeconds).toBeGreaterThan(0);
    expect(waitSeconds).toBeLessThanOrEqual(60);
    expect(await jobsOf(client)).toBe(3);
    expect((await submit(other)).status).toBe(202);
    expect((await client.get('/jobs')).status).toBe(429);
  });

  it('may be as many as configured, for all clients and for one alone [FR-18.01]', async () => {
    const { requestsPerMinute } = config({ MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '4' }).limits;
    const url = await listenWithRate(requestsPerMinute);
    const [one, other] = [(await server.client()).at(url), (await server.client()).at(url)];
    await setOrgRate(server.ledger.db.api, other.clientId, 2);
    await moveIntoMinute(server.ledger, 1_000);
    const statuses = async (client: TestClient) => {
      const seen: number[] = [];
      for (let call = 0; call < 5; call++) seen.push((await client.get('/clients/me')).status);
      return seen;
    };
    expect(await statuses(one)).toEqual([200, 200, 200, 200, 429]);
    expect(await statuses(other)).toEqual([200, 200, 429, 429, 429]);
  });
});

describe('jobs at work', () => {
  it('are never more than the limit, as configured; the others wait in QUEUED and are done in their turn [FR-14.64] [FR-17.02] [FR-18.02]', async () => {
    expect(ACTIVE_JOBS).toBe(2);
    const [one, other] = [await server.client(), await server.client()];
    const release = server.longJobs.hold();
    const submitted: { client: TestClient; id: string }[] = [];
    for (const client of [one, other, one, other, one]) {
      submitted.push({ client, id: await client.submit({ work_kind: LONG }) });
    }
    const ids = submitted.map(({ id }) => id);
    await until('as many jobs run as the client may have', () => countOf(ids, 'running'), ACTIVE_JOBS);
    const states = await Promise.all(submitted.map(({ client, id }) => client.state(id)));
    expect(states.toSorted()).toEqual(['QUEUED', 'QUEUED', 'QUEUED', 'RUNNING', 'RUNNING']);
    release();
    for (const { client, id } of submitted) await client.reached(id, 'SUCCEEDED');
    expect(await mostAtOnce(ids)).toBe(ACTIVE_JOBS);
  });
});

async function countOf(ids: readonly string[], state: string): Promise<number> {
  const text = 'SELECT count(*)::int4 AS count FROM millrace.jobs WHERE id = ANY ($1::uuid[]) AND state = $2';
  return (await server.ledger.db.api.query(text, [ids, state])).rows[0].count;
}

/** How many ran at once at most, by the times of their attempts. */
async function mostAtOnce(ids: readonly string[]): Promise<number> {
  const text = 'SELECT started_at, completed_at FROM millrace.jobs WHERE id = ANY ($1::uuid[])';
  const { rows } = await server.ledger.db.api.query(text, [ids]);
  const spans = rows as { started_at: Date; completed_at: Date }[];
  return Math.max(...spans.map(({ started_at: at }) => spans.filter((span) => span.started_at <= at && at < span.completed_at).length));
}

describe('the payload of a job', () => {
  it('beyond the limit is refused with 400, and no job is created [FR-17.04]', async () => {
    const url = await server.listen({ settings: { payloadBytes: 200 * 1_024 } });
    const client = (await server.client()).at(url);
    const large = await client.post('/jobs', { type: 'EXECUTE', work_kind: 'PAYLOAD_LARGE' });
    expect([large.status, large.body.code]).toEqual([400, 'RFA_JOB_VALIDATION_FAILED']);
    expect(large.body.errors).toMatchObject([{ field: 'work_kind', code: 'PAYLOAD_TOO_LARGE' }]);
    expect(await jobsOf(client)).toBe(0);
    expect((await submit(client)).status).toBe(202);
  });
});
