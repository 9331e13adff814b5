import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openQueueDoor } from '../../src/http/queue/door.ts';
import { sampleStoredBytes } from '../../src/ledger/queues/stored-bytes.ts';
import { createQueueAdmission } from '../../src/services/admission/queue-admission.ts';
import { bytesOf, StoredLimit } from '../../src/services/admission/stored-limit.ts';
import { submitMany } from '../../src/services/jobs/submit-many.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const SIZE = 10;
const queue = useQueue();

beforeAll(async () => {
  queue.url = await queue.listen({ doors: [openQueueDoor({ queueSize: SIZE })] });
});

// Nobody handles the type: what a test submits waits, and must be gone before the next.
beforeEach(() => queue.ledger.db.api.query('DELETE FROM millrace.ready'));

const job = (more: object = {}) => ({ type: 'nobody', payload: {}, ...more });
const jobs = (count: number) => Array.from({ length: count }, () => job());

/** Submits one job after another until one is refused. Returns how many were accepted, and the refusal. */
async function fill(caller: Caller) {
  for (let accepted = 0; ; accepted++) {
    const answer = await caller.post('/jobs', job());
    if (answer.status !== 202) return { accepted, ...answer };
  }
}

describe('of the jobs that may wait', () => {
  it('one org gets its share, and the refusal names it', async () => {
    const caller = await queue.caller();
    const { accepted, status, body, headers } = await fill(caller);
    expect([accepted, status, body.code]).toEqual([SIZE / 2, 429, 'QUOTA_EXCEEDED']);
    expect(body.quota).toEqual({ limit: 'org_queue_depth', current: SIZE / 2, maximum: SIZE / 2, retry_after: 'PT1S' });
    expect(body.message).toContain('limits.org_share');
    expect(headers.get('retry-after')).toBe('1');
  });

  it('there are always some for another org, however many orgs take all they get', async () => {
    for (let org = 0; org < 4; org++) expect((await fill(await queue.caller())).accepted).toBeGreaterThan(0);
  });

  it('a batch gets those that are left of the share of its org, and an atomic one all or none', async () => {
    const caller = await queue.caller();
    await caller.post('/jobs/batch', { jobs: jobs(SIZE / 2 - 1) });
    const atomic = await caller.post('/jobs/batch', { jobs: jobs(2) });
    expect([atomic.status, atomic.body.quota.limit]).toEqual([429, 'org_queue_depth']);
    const { body } = await caller.post('/jobs/batch', { jobs: jobs(2), atomic: false });
    expect([body.accepted, body.results[1].error.code]).toEqual([1, 'QUOTA_EXCEEDED']);
    expect((await (await queue.caller()).post('/jobs', job())).status).toBe(202);
  });

  it('a long queue has shares too, and beyond its share an org still gets the answers to its repeats', async () => {
    const url = queue.url;
    queue.url = await queue.listen({ doors: [openQueueDoor({ queueSize: 5_000 })] });
    try {
      const caller = await queue.caller();
      const keyed = job({ idempotency_key: 'once' });
      const first = await caller.submit(keyed);
      let accepted = 1;
      for (let batch = 0; batch < 6; batch++) {
        accepted += (await caller.post('/jobs/batch', { jobs: jobs(1_000), atomic: false })).body.accepted;
      }
      expect(accepted).toBe(2_500);
      const refused = await caller.post('/jobs', job());
      expect([refused.status, refused.body.quota.limit]).toEqual([429, 'org_queue_depth']);
      expect((await caller.post('/jobs', keyed)).body).toMatchObject({ status: 'DUPLICATE', job_id: first });
      const repeats = await caller.post('/jobs/batch', { jobs: [keyed, job()], atomic: false });
      expect(repeats.body.results).toMatchObject([{ status: 'DUPLICATE' }, { error: { code: 'QUOTA_EXCEEDED' } }]);
      expect((await (await queue.caller()).post('/jobs/batch', { jobs: jobs(100) })).body.accepted).toBe(100);
    } finally {
      queue.url = url;
    }
  });

  it('jobs beyond the share of an org that were not refused, such as those that became due, take no room of another org', async () => {
    const hostile = await queue.caller();
    await submitMany(queue.engine, { orgId: hostile.orgId, submissions: jobs(3 * SIZE), atomic: true, actor: null });
    expect((await (await queue.caller()).post('/jobs', job())).status).toBe(202);
    expect((await hostile.post('/jobs', job())).body.quota.limit).toBe('org_queue_depth');
  });

  it('those that handlers spawn count: beyond the share of its org the handler fails, and is told why', async () => {
    const limit = createQueueAdmission(queue.engine, { queueSize: SIZE });
    queue.admitChild = (child) => limit.reserve({ orgId: child.orgId, jobs: 1, least: 1, bytes: bytesOf(child) });
    try {
      const caller = await queue.caller();
      let spawned = 0;
      const greedy = await caller.act(
        async (context) => {
          for (;;) {
            await context.spawn(job());
            spawned++;
          }
        },
        { max_attempts: 1 },
      );
      await caller.reached(greedy, 'DEAD_LETTER', 'FAILED');
      const { failure } = (await caller.get(`/jobs/${greedy}/failure`)).body;
      expect([spawned, failure.code]).toEqual([SIZE / 2, 'QUOTA_EXCEEDED']);
      expect(failure.message).toContain('limits.org_share');
    } finally {
      queue.admitChild = undefined;
    }
  });
});

describe('of the bytes that jobs may take', () => {
  const MEBIBYTE = 1_048_576;
  // Random text, which the database cannot compress.
  const noise = (bytes: number) =>
    Buffer.from(crypto.getRandomValues(new Uint8Array(Math.min(65_536, (bytes * 3) / 4)))).toString('base64');

  it('one org gets its share, whether the jobs wait or have ended, and another org is not refused', async () => {
    const url = queue.url;
    const before = (await sampleStoredBytes(queue.ledger.db.maintenance)).all;
    // Two megabytes are left of the half that orgs may fill.
    const storedBytes = 2 * (before + 2 * MEBIBYTE);
    const stored = new StoredLimit(queue.ledger.db, { storedBytes, orgShare: 0.5 });
    queue.url = await queue.listen({ doors: [openQueueDoor({ queueSize: 100_000, stored })] });
    try {
      const caller = await queue.caller();
      let refused: Awaited<ReturnType<Caller['post']>> | undefined;
      for (let n = 0; n < 100 && refused === undefined; n++) {
        const answer = await caller.post('/jobs', job({ payload: { text: noise(65_536) }, delay: 'PT1H' }));
        if (answer.status !== 202) refused = answer;
      }
      expect([refused?.status, refused?.body.quota.limit]).toEqual([429, 'org_stored_bytes']);
      expect(refused?.body.message).toContain('limits.stored_size');
      const after = await sampleStoredBytes(queue.ledger.db.maintenance);
      expect(after.all).toBeLessThan(storedBytes);
      expect(after.holders.get(caller.orgId)).toBeGreaterThan(MEBIBYTE);
      expect((await (await queue.caller()).post('/jobs', job())).status).toBe(202);
    } finally {
      queue.url = url;
    }
  });
});

it('a simulated job may not ask for more than the server allows, in a batch either', async () => {
  const simulation = { durationMs: 1_000, outputBytes: 10, children: 2 };
  const url = queue.url;
  queue.url = await queue.listen({ doors: [openQueueDoor({ queueSize: 100_000, simulation })] });
  try {
    const caller = await queue.caller();
    const simulated = (payload: object) => ({ type: 'simulate', payload });
    const cases: [string, object][] = [
      ['payload.duration_ms', { duration_ms: 1_001 }],
      ['payload.output_bytes', { duration_ms: 1, output_bytes: 11 }],
      ['payload.spawn.count', { duration_ms: 1, spawn: { count: 3 } }],
    ];
    for (const [field, payload] of cases) {
      const { status, body } = await caller.post('/jobs', simulated(payload));
      expect([status, body.details[0].field, body.details[0].code]).toEqual([400, field, 'OUT_OF_RANGE']);
      const batch = await caller.post('/jobs/batch', { jobs: [simulated(payload)], atomic: false });
      expect(batch.body.results[0].error.details[0].field).toBe(field);
    }
    expect((await caller.post('/jobs', simulated({ duration_ms: 1_000, output_bytes: 10, spawn: { count: 2 } }))).status).toBe(202);
  } finally {
    queue.url = url;
  }
});
