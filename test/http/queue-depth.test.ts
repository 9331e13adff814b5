import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DELIVERY_TYPE } from '../../src/core/delivery-policy.ts';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { openQueueDoor } from '../../src/http/queue/door.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { Admission, type AdmissionOptions } from '../../src/services/admission/admission.ts';
import { createQueueAdmission } from '../../src/services/admission/queue-admission.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { submitMany } from '../../src/services/jobs/submit-many.ts';
import { newProject } from '../ledger/new-project.ts';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const SIZE = 5;
const queue = useQueue();

beforeAll(async () => {
  queue.url = await queue.listen({ doors: [openQueueDoor({ queueSize: SIZE, orgShare: 1 })] });
});

// Nobody handles the type: what a test submits waits, and must be gone before the next.
beforeEach(() => queue.ledger.db.api.query('DELETE FROM millrace.ready'));

const job = (more: object = {}) => ({ type: 'nobody', payload: {}, ...more });
const jobs = (count: number, more: object = {}) => Array.from({ length: count }, () => job(more));

const codesOf = ({ results }: { results: { error?: { code: string } }[] }) => results.map(({ error }) => error?.code ?? null);

async function countOf({ orgId }: { orgId: string }): Promise<number> {
  const text = 'SELECT count(*)::int4 AS jobs FROM millrace.jobs WHERE org_id = $1';
  return (await queue.ledger.db.api.query(text, [orgId])).rows[0].jobs;
}

async function filling(count = SIZE): Promise<Caller> {
  const caller = await queue.caller();
  for (let n = 0; n < count; n++) await caller.submit(job());
  return caller;
}

describe('a queue that is full', () => {
  it('is answered 429 QUOTA_EXCEEDED with its depth and Retry-After, and nothing is written [GA-1.31..34] [GA-6.17] [C71]', async () => {
    const caller = await filling(SIZE - 1);
    const first = await caller.submit(job());
    const key = { idempotency_key: 'never used' };
    for (const more of [{}, key, { delay: 'PT1H' }, { depends_on: [first] }]) {
      const { status, body, headers } = await caller.post('/jobs', job(more));
      expect([status, body.code]).toEqual([429, 'QUOTA_EXCEEDED']);
      expect(body.quota).toEqual({ limit: 'queue_depth', current: SIZE, maximum: SIZE, retry_after: 'PT1S' });
      expect(headers.get('retry-after')).toBe('1');
    }
    expect(await countOf(caller)).toBe(SIZE);
    await queue.ledger.db.api.query('DELETE FROM millrace.ready');
    expect((await caller.post('/jobs', job(key))).status).toBe(202);
  });

  it('takes of many at once exactly as many as fit, over processes [C71]', async () => {
    const caller = await queue.caller();
    const elsewhere = openDatabase({ url: queue.ledger.db.url, apiPool: 2 });
    try {
      const other = createQueueAdmission({ database: elsewhere }, { queueSize: SIZE, orgShare: 1 });
      const submission = { type: 'nobody', payload: {} };
      const submit = () => submitJob(queue.engine, { orgId: caller.orgId, submission, actor: null, admission: other });
      const here = Array.from({ length: 20 }, () => caller.post('/jobs', job()).then(({ status }) => status));
      const there = Array.from({ length: 20 }, () =>
        submit().then(
          () => 202,
          (error) => (error.quota?.limit === 'queue_depth' ? 429 : 500),
        ),
      );
      const statuses = await Promise.all([...here, ...there]);
      expect(statuses.filter((status) => status === 202)).toHaveLength(SIZE);
      expect(statuses.filter((status) => status === 429)).toHaveLength(40 - SIZE);
      expect(await countOf(caller)).toBe(SIZE);
    } finally {
      await elsewhere.close();
    }
  });

  it('answers a repeat with its job, and another request with the key with 409', async () => {
    const caller = await queue.caller();
    const keyed = [{ idempotency_key: 'a' }, { idempotency_key: 'a', project_id: await newProject(queue.ledger.db, caller.orgId) }];
    const ids = [await caller.submit(job(keyed[0])), await caller.submit(job(keyed[1]))];
    await caller.post('/jobs/batch', { jobs: jobs(SIZE - 2) });
    for (const [index, more] of keyed.entries()) {
      const { status, body } = await caller.post('/jobs', job(more));
      expect([status, body.status, body.job_id]).toEqual([200, 'DUPLICATE', ids[index]]);
    }
    expect((await caller.post('/jobs', job({ ...keyed[0], payload: { other: 1 } }))).status).toBe(409);
    const batch = { jobs: keyed.map(job) };
    const expected = ids.map((id) => ({ status: 'DUPLICATE', job_id: id }));
    expect((await caller.post('/jobs/batch', batch)).body.results).toMatchObject(expected);
    const mixed = await caller.post('/jobs/batch', { jobs: [job(), ...batch.jobs], atomic: false });
    expect(mixed.body.results).toMatchObject([{ error: { code: 'QUOTA_EXCEEDED' } }, ...expected]);
  });

  it('admits other jobs while a transaction holds the key of a waiting one', async () => {
    const caller = await queue.caller();
    const keyed = { idempotency_key: 'held' };
    const client = await queue.ledger.db.maintenance.connect();
    try {
      await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
      const submission = job({ idempotencyKey: 'held' });
      const holder = await submitJob(queue.engine, { orgId: caller.orgId, submission, actor: null, client });
      let isAnswered = false;
      const held = caller.post('/jobs', job(keyed)).finally(() => {
        isAnswered = true;
      });
      const beside = caller.post('/jobs/batch', { jobs: [job(keyed), job()], atomic: false });
      for (let n = 0; n < 3; n++) await (await queue.caller()).submit(job());
      const { results } = (await beside).body;
      expect(results).toMatchObject([{ error: { code: 'UNAVAILABLE' } }, { status: 'ACCEPTED' }]);
      expect(isAnswered).toBe(false);
      await client.query('COMMIT');
      expect((await held).body).toMatchObject({ status: 'DUPLICATE', job_id: holder.jobId });
    } finally {
      client.release(true);
    }
  });

  it('does not stop a program, whose jobs count all the same', async () => {
    const orgId = await queue.ledger.newOrg();
    const submissions = jobs(SIZE + 1);
    const { accepted } = await submitMany(queue.engine, { orgId, submissions, atomic: true, actor: null });
    expect(accepted).toBe(SIZE + 1);
    const { status, body } = await (await queue.caller()).post('/jobs', job());
    expect([status, body.quota.current]).toEqual([429, SIZE + 1]);
  });

  it('is not one of the execution API or of deliveries, which have bounds of their own [C71]', async () => {
    const { rows } = await queue.ledger.db.api.query('SELECT id FROM millrace.orgs LIMIT 1');
    for (const type of [EXECUTION_TYPE, DELIVERY_TYPE])
      await queue.ledger.db.api.query(
        `INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs)
         VALUES (1, $1, 2, 'q:default', $2, ARRAY[-1, -2, -3, -4, -5, -6])`,
        [rows[0].id, type],
      );
    expect((await (await queue.caller()).post('/jobs', job())).status).toBe(202);
  });
});

describe('a batch', () => {
  it('that is atomic is let in whole or not at all [C71]', async () => {
    const caller = await filling(SIZE - 2);
    const { status, body, headers } = await caller.post('/jobs/batch', { jobs: jobs(3) });
    expect([status, body.quota.limit, body.quota.current]).toEqual([429, 'queue_depth', SIZE - 2]);
    expect(headers.get('retry-after')).toBe('1');
    expect(await countOf(caller)).toBe(SIZE - 2);
    expect((await caller.post('/jobs/batch', { jobs: jobs(2) })).body.accepted).toBe(2);
  });

  it.each([
    ['plain jobs', () => ({})],
    ['jobs with keys', (index: number) => ({ idempotency_key: `k-${index}` })],
  ])('of %s that is not atomic has the rows rejected that no longer fit [C71]', async (_, more) => {
    const caller = await filling(SIZE - 2);
    const rows = jobs(4).map((each, index) => ({ ...each, ...more(index) }));
    const { status, body } = await caller.post('/jobs/batch', { jobs: rows, atomic: false });
    expect([status, body.accepted, body.rejected]).toEqual([200, 2, 2]);
    expect(codesOf(body)).toEqual([null, null, 'QUOTA_EXCEEDED', 'QUOTA_EXCEEDED']);
    const again = await caller.post('/jobs/batch', { jobs: rows.slice(3), atomic: false });
    expect(codesOf(again.body)).toEqual(['QUOTA_EXCEEDED']);
    expect(await countOf(caller)).toBe(SIZE);
  });

  it('of jobs with dependencies that is not atomic has the same of each [C71]', async () => {
    const caller = await filling(SIZE - 2);
    const done = await caller.submit(job());
    await queue.ledger.db.api.query(`UPDATE millrace.jobs SET state = 'completed', completed_at = now() WHERE id = $1`, [done]);
    const rows = jobs(3, { depends_on: [done] });
    const { status, body } = await caller.post('/jobs/batch', { jobs: rows, atomic: false });
    expect([status, codesOf(body)]).toEqual([200, [null, 'QUOTA_EXCEEDED', 'QUOTA_EXCEEDED']]);
    expect(await countOf(caller)).toBe(SIZE);
  });
});

it('far from the limit only the first request waits for a count', async () => {
  const counting = new Gate();
  let counts = 0;
  const read = async () => {
    if (counts++ > 0) await counting.pass();
    return { all: 0, holders: new Map() };
  };
  const full: AdmissionOptions['full'] & AdmissionOptions['overShare'] = () => new Error() as never;
  const admission = new Admission(queue.engine, {
    queueSize: 100_000,
    orgShare: 0.5,
    depth: { read, readLocked: read },
    full,
    overShare: full,
  });
  const admit = () => admission.admit(async (place) => place, { orgId: 'one', jobs: 1, least: 1, bytes: 0 });
  expect(await admit()).toBeUndefined();
  await until('the depth has been counted again', async () => (await admit()) === undefined && counts === 2);
  expect(await admit()).toBeUndefined();
  expect(counts).toBe(2);
  counting.open();
});
