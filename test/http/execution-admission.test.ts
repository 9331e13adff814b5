import { tmpdir } from 'node:os';
import type pg from 'pg';
import { describe, expect, it, vi } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { AppError } from '../../src/core/errors.ts';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { readClock } from '../../src/ledger/driver/clock.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { depthByOrg } from '../../src/ledger/queues/queue-depth.ts';
import type { Load, Place } from '../../src/services/admission/admission.ts';
import { createExecutionAdmission } from '../../src/services/admission/queue-admission.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { stopClock } from '../ledger/set-clock.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { inAnHour } from './execution-work.ts';

const { queueSize: QUEUE_SIZE } = loadConfig({ environment: { MILLRACE_LIMITS_QUEUE_SIZE: '5' }, folder: tmpdir() }).config.execution;

const HOUR = 3_600_000;
const server = useExecution({ queueSize: QUEUE_SIZE, orgShare: 1 });

const submit = (client: TestClient, request: object = {}) =>
  client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', ...request });

const idsOf = async ({ clientId }: TestClient): Promise<string[]> => {
  const { rows } = await server.ledger.db.api.query('SELECT id FROM millrace.jobs WHERE org_id = $1', [clientId]);
  return rows.map(({ id }) => id as string).sort();
};

const depth = () => depthByOrg(server.ledger.db.api, { queue: 'q:default', jobType: EXECUTION_TYPE, atMost: 1_000 }).then(({ all }) => all);

/** Lets every job be done, then stops the worker: what is submitted from here on stays in the queue. */
async function withoutWorker(): Promise<void> {
  const text = `SELECT FROM millrace.jobs WHERE state NOT IN ('completed', 'failed', 'dead_letter', 'cancelled')`;
  await server.worker('start');
  await until('every job has ended', async () => (await server.ledger.db.api.query(text)).rowCount, 0);
  await server.worker('none');
}

describe('a full queue', () => {
  it('refuses with 503 QUEUE_FULL and Retry-After, and writes nothing [FR-14.28] [FR-14.34] [FR-14.65] [FR-17.03] [FR-18.03]', async () => {
    expect(QUEUE_SIZE).toBe(5);
    await withoutWorker();
    const client = await server.client();
    for (let job = 0; job < QUEUE_SIZE; job++) await client.submit();
    const before = await idsOf(client);
    const key = 'a key that was never used';
    const { status, body, headers } = await submit(client, { idempotency_key: key });
    expect([status, body.code]).toEqual([503, 'RFA_EXEC_QUEUE_FULL']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await idsOf(client)).toEqual(before);
    const keys = 'SELECT FROM millrace.idempotency_keys WHERE org_id = $1';
    expect((await server.ledger.db.api.query(keys, [client.clientId])).rowCount).toBe(0);
    await withoutWorker();
    expect((await submit(client, { idempotency_key: key })).status).toBe(202);
  });

  it('never drops an accepted job: of many at once as many are accepted as fit, each runs, the others are refused [FR-14.29]', async () => {
    await withoutWorker();
    const client = await server.client();
    const answers = await Promise.all(Array.from({ length: 4 * QUEUE_SIZE }, () => submit(client)));
    const accepted = answers.filter(({ status }) => status === 202).map(({ body }) => body.job_id as string);
    expect(accepted).toHaveLength(QUEUE_SIZE);
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(3 * QUEUE_SIZE);
    expect(await idsOf(client)).toEqual(accepted.sort());
    await server.worker('start');
    for (const id of accepted) await client.reached(id, 'SUCCEEDED');
  });

  it('answers a repeat with the job it repeats, and another request with the key with 409 [FR-07.15] [FR-14.48]', async () => {
    await withoutWorker();
    const client = await server.client();
    const first = await submit(client, { type: 'EXECUTE', idempotency_key: 'k' });
    for (let job = 1; job < QUEUE_SIZE; job++) await client.submit();
    expect((await submit(client, { type: 'EXECUTE' })).status).toBe(503);
    const again = await submit(client, { type: 'EXECUTE', idempotency_key: 'k' });
    expect([again.status, again.body.job_id]).toEqual([202, first.body.job_id]);
    expect((await submit(client, { type: 'EMIT_EVENT', idempotency_key: 'k' })).status).toBe(409);
    expect((await submit(client, { type: 'EXECUTE', idempotency_key: 'other' })).status).toBe(503);
  });

  it('refuses a job for a time that has come like one for now, and answers its repeat [FR-17.03] [FR-14.28]', async () => {
    await withoutWorker();
    const client = await server.client();
    // A time of a second ago is refused, and a busy machine may need that long.
    await stopClock(server.ledger);
    const nowMs = (await readClock(server.ledger.db.api)).getTime();
    const due = { type: 'DEFERRED', execution_at: new Date(nowMs - 100).toISOString(), idempotency_key: 'due' };
    const first = await submit(client, due);
    expect([first.status, first.body.state]).toEqual([202, 'QUEUED']);
    for (let job = 1; job < QUEUE_SIZE; job++) await client.submit();
    const before = await idsOf(client);
    for (const ms of [-100, 0]) {
      for (const type of ['DEFERRED', 'EMIT_EVENT']) {
        const executionAt = new Date(nowMs + ms).toISOString();
        const { status, body } = await submit(client, { type, execution_at: executionAt });
        expect([status, body.code]).toEqual([503, 'RFA_EXEC_QUEUE_FULL']);
      }
    }
    expect((await submit(client, due)).body.job_id).toBe(first.body.job_id);
    expect(await idsOf(client)).toEqual(before);
    expect(await depth()).toBe(QUEUE_SIZE);
  });

  it('takes a job for later, which enters it at its time [FR-14.29]', async () => {
    await withoutWorker();
    const client = await server.client();
    for (let job = 0; job < QUEUE_SIZE; job++) await client.submit();
    const { status, body } = await submit(client, {
      type: 'DEFERRED',
      work_kind: 'SCHEDULED_ON_TIME',
      execution_at: inAnHour(),
    });
    expect(status).toBe(202);
    await server.worker('start');
    await server.ledger.moveClock(2 * HOUR);
    await client.reached(body.job_id, 'SUCCEEDED');
    await server.ledger.moveClock(-2 * HOUR);
  });
});

const one = (orgId: string): Load => ({ orgId, jobs: 1, least: 1, bytes: 0 });

it('a client gets its share of the queue, and the problem names it; another client is accepted', async () => {
  await withoutWorker();
  const url = await server.listen({ settings: { queueSize: 4, orgShare: 0.5 } });
  const [hostile, other] = [(await server.client()).at(url), (await server.client()).at(url)];
  for (let n = 0; n < 2; n++) expect((await submit(hostile)).status).toBe(202);
  const { status, body, headers } = await submit(hostile);
  expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'RFA_EXEC_QUEUE_FULL', '1']);
  expect(body.detail).toContain('limits.org_share');
  expect((await submit(other)).status).toBe(202);
});

describe('admission', () => {
  const isQueueFull = (error: unknown) => (error as AppError).problem === 'RFA_EXEC_QUEUE_FULL';

  it('is exact over processes, and for repeats and failures in between', async () => {
    await withoutWorker();
    const { clientId: orgId } = await server.client();
    const elsewhere = openDatabase({ url: server.ledger.db.url, apiPool: 3 });
    const terms = { profile: server.settings.profile };
    try {
      const admissions = [server.engine, { database: elsewhere }].map((engine) =>
        createExecutionAdmission(engine, { queueSize: 8, orgShare: 1 }),
      );
      const work = (index: number) => async (place?: Place) => {
        const client = place?.client;
        if (index % 5 === 0) throw new AppError('DUPLICATE');
        if (index % 7 === 0) return client?.query('SELECT nothing_of_the_sort');
        const submission = { type: EXECUTION_TYPE, payload: {} };
        return submitJob(server.engine, { orgId, submission, actor: null, client, terms });
      };
      const admitted = await Promise.allSettled(
        Array.from({ length: 60 }, (_, index) => admissions[index % 2]?.admit<unknown>(work(index), one(orgId))),
      );
      const full = admitted.filter((each) => each.status === 'rejected' && isQueueFull(each.reason));
      expect(admitted.filter(({ status }) => status === 'fulfilled')).toHaveLength(8);
      expect(full.length).toBeGreaterThan(0);
      expect(await depth()).toBe(8);
    } finally {
      await elsewhere.close();
    }
  });

  it('counts the queue the less often the more room there is', async () => {
    const { database } = server.engine;
    const countsOf = async (queueSize: number): Promise<number> => {
      let counts = 0;
      const query = (config: pg.QueryConfig) => {
        counts++;
        return database.api.query(config);
      };
      const admission = createExecutionAdmission({ database: { ...database, api: { query } as unknown as pg.Pool } }, { queueSize });
      await admission.admit(async () => {}, one('any'));
      vi.advanceTimersByTime(500);
      await admission.admit(async () => {}, one('any'));
      return counts;
    };
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      expect([await countsOf(100_000), await countsOf(2_500)]).toEqual([1, 2]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('far from the limit does not hold a transaction, and a writer that has too much to do is a full queue [FR-14.34]', async () => {
    const admission = createExecutionAdmission(server.engine, { queueSize: 100_000 });
    expect(await admission.admit(async (place) => place, one('any'))).toBeUndefined();
    const overflow = admission.admit(() => Promise.reject(new AppError('QUOTA_EXCEEDED')), one('any'));
    await expect(overflow).rejects.toMatchObject({ code: 'UNAVAILABLE', problem: 'RFA_EXEC_QUEUE_FULL' });
    const later = admission.admit(() => Promise.reject(new AppError('QUOTA_EXCEEDED')), { ...one('any'), jobs: 0, least: 0 });
    await expect(later).rejects.toMatchObject({ problem: 'RFA_EXEC_QUEUE_FULL' });
    const failure = admission.admit(() => Promise.reject(new AppError('DUPLICATE')), one('any'));
    await expect(failure).rejects.toMatchObject({ code: 'DUPLICATE' });
  });
});
