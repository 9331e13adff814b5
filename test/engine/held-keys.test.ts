/** Submissions of others while a transaction that is still open has written an idempotency key. */
import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Submission } from '../../src/core/submission.ts';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import type { JobToWrite } from '../../src/ledger/jobs/job-to-write.ts';
import { submitShared } from '../../src/ledger/jobs/submit-jobs.ts';
import { prepareSubmission } from '../../src/services/jobs/prepare-submission.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { submitParts } from './submit-parts.ts';

const ledger = useLedger();
let parts: ReturnType<typeof submitParts>;
/** Waits for a lock as long as the product does. */
let impatient: ReturnType<typeof submitParts>;

beforeAll(() => {
  parts = submitParts(ledger, { patienceMs: 80_000 });
  impatient = submitParts(ledger);
});

const job = (more: object = {}): Submission => ({ type: 'held', payload: {}, ...more });
const submit = async (orgId: string, more: object = {}) => parts.submitter.accept(await prepare(orgId, more));

async function prepare(orgId: string, more: object): Promise<JobToWrite> {
  const prepared = await prepareSubmission(parts.intake, { orgId, submission: job(more), actor: null });
  if (!prepared.ok) throw new Error(JSON.stringify(prepared.issues));
  return prepared.entry;
}

async function begin(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return client;
}

/** A transaction of a user that has submitted jobs with these keys and goes on. */
async function holding(orgId: string, keys: readonly string[]): Promise<pg.Client> {
  const client = await begin();
  const entries = await Promise.all(keys.map((idempotencyKey) => prepare(orgId, { idempotencyKey })));
  await parts.writer.writeTogether(entries, client);
  return client;
}

/** What has happened to a promise so far. */
function watch<T>(promise: Promise<T>): { promise: Promise<T>; isSettled: boolean } {
  const watched = { promise, isSettled: false };
  const note = () => {
    watched.isSettled = true;
  };
  promise.then(note, note);
  return watched;
}

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`);

/** One caller with the key and 63 strangers, in the same moment. Returns when the strangers have their answers. */
async function submitAmongStrangers(orgId: string, idempotencyKey: string) {
  const others = await ledger.newOrg();
  const held = watch(submit(orgId, { idempotencyKey }));
  const strangers = Array.from({ length: 63 }, (_, n) => submit(others, n % 2 === 0 ? {} : { idempotencyKey: `s-${n}` }));
  const answers = await Promise.all(strangers);
  return { held, kinds: new Set(answers.map(({ kind }) => kind)) };
}

describe('a key that an open transaction of a user has written', () => {
  it('delays no stranger, and is answered with that job after the commit', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    const { held, kinds } = await submitAmongStrangers(orgId, 'k');
    expect(kinds).toEqual(new Set(['accepted']));
    expect(held.isSettled).toBe(false);
    await client.query('COMMIT');
    expect(await held.promise).toMatchObject({ kind: 'duplicate', sameRequest: true });
  });

  it('is left out by the shared statement, which waits for nothing', async () => {
    const orgId = await ledger.newOrg();
    await holding(orgId, ['k']);
    const failed: string[] = [];
    observeStatements((seen) => seen.failed && failed.push(seen.name));
    onTestFinished(() => observeStatements(null));
    const entries = [await prepare(orgId, { idempotencyKey: 'k' }), await prepare(orgId, {})];
    const answers = await submitShared(ledger.db.submitting, entries);
    expect(answers).toMatchObject([{ kind: 'held' }, { kind: 'accepted' }]);
    expect(failed).toEqual([]);
  });

  it('is free after a rollback', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    const { held } = await submitAmongStrangers(orgId, 'k');
    expect(held.isSettled).toBe(false);
    await client.query('ROLLBACK');
    expect(await held.promise).toMatchObject({ kind: 'accepted' });
  });

  it('is refused to its caller alone when it is held for long', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    await expect(impatient.submitter.accept(await prepare(orgId, { idempotencyKey: 'k' }))).rejects.toMatchObject({
      ...{ code: 'UNAVAILABLE', retryAfterMs: 1_000 },
      message: expect.stringContaining('uses this idempotency key'),
    });
    expect(await submit(orgId)).toMatchObject({ kind: 'accepted' });
    await client.query('ROLLBACK');
    expect(await submit(orgId, { idempotencyKey: 'k' })).toMatchObject({ kind: 'accepted' });
  });

  it('delays no stranger where the transaction did not announce it', async () => {
    const orgId = await ledger.newOrg();
    const client = await begin();
    await client.query(
      `INSERT INTO millrace.idempotency_keys (org_id, scope, key, job_id, fingerprint, expires_at)
       VALUES ($1, 'held', 'k', gen_random_uuid(), 'f', 'infinity')`,
      [orgId],
    );
    const { held, kinds } = await submitAmongStrangers(orgId, 'k');
    expect(kinds).toEqual(new Set(['accepted']));
    expect(held.isSettled).toBe(false);
    await client.query('COMMIT');
    expect(await held.promise).toMatchObject({ kind: 'duplicate', sameRequest: false });
  });

  it('is known to the transaction itself', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    const [again] = await parts.writer.writeTogether([await prepare(orgId, { idempotencyKey: 'k' })], client);
    expect(again).toMatchObject({ kind: 'duplicate', sameRequest: true });
  });
});

describe('many keys in one transaction', () => {
  it('take a bounded number of locks, and leave other keys of the org free', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, keysOf(2_000));
    const { rows } = await ledger.db.api.query(`SELECT count(*)::int4 AS locks FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'`, [
      (client as unknown as { processID: number }).processID,
    ]);
    expect(rows[0].locks).toBeLessThanOrEqual(64);
    const free = await Promise.all([submit(orgId, { idempotencyKey: 'free' }), submit(orgId)]);
    expect(free).toMatchObject([{ kind: 'accepted' }, { kind: 'accepted' }]);
    await client.query('COMMIT');
    expect(await submit(orgId, { idempotencyKey: 'k-1999' })).toMatchObject({ kind: 'duplicate' });
  });

  it('do not make two transactions of one org wait for each other', async () => {
    const orgId = await ledger.newOrg();
    await holding(orgId, keysOf(300));
    const other = await holding(
      orgId,
      keysOf(300).map((key) => `other-${key}`),
    );
    await other.query('COMMIT');
  });
});

describe('a batch', () => {
  it('that is not atomic has its other jobs accepted while one of its keys is held', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    const entries = await Promise.all(['k', 'free'].map((idempotencyKey) => prepare(orgId, { idempotencyKey })));
    const batch = watch(parts.writer.writeEach(entries));
    const isThere = `SELECT FROM millrace.jobs WHERE id = $1`;
    await until('the free job is there', async () => (await ledger.db.api.query(isThere, [entries[1]?.id])).rowCount, 1);
    expect(batch.isSettled).toBe(false);
    await client.query('COMMIT');
    expect(await batch.promise).toMatchObject([{ kind: 'duplicate' }, { kind: 'accepted' }]);
  });

  it('that is all or none holds nothing while it waits for a key', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, ['k']);
    const entries = await Promise.all(['a', 'k'].map((idempotencyKey) => prepare(orgId, { idempotencyKey })));
    const batch = watch(parts.writer.writeTogether(entries));
    await ledger.untilBlocked();
    expect(await submit(orgId, { idempotencyKey: 'a' })).toMatchObject({ kind: 'accepted' });
    expect(batch.isSettled).toBe(false);
    await client.query('ROLLBACK');
    expect(await batch.promise).toMatchObject([{ kind: 'duplicate' }, { kind: 'accepted' }]);
  });
});
