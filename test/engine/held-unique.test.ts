/** Submissions of others while a transaction that is still open has used a unique key. */
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

const REPLACE = { key: 'k', onConflict: 'replace' } as const;

async function prepare(orgId: string, more: Partial<Submission>): Promise<JobToWrite> {
  const submission = { type: 'held', payload: {}, ...more };
  const prepared = await prepareSubmission(parts.intake, { orgId, submission, actor: null });
  if (!prepared.ok) throw new Error(JSON.stringify(prepared.issues));
  return prepared.entry;
}

const submit = async (orgId: string, more: Partial<Submission> = {}) => parts.submitter.accept(await prepare(orgId, more));

async function begin(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return client;
}

/** A transaction of a user that has submitted this and goes on. */
async function holding(orgId: string, more: Partial<Submission>): Promise<pg.Client> {
  const client = await begin();
  await parts.writer.writeTogether([await prepare(orgId, more)], client);
  return client;
}

function watch<T>(promise: Promise<T>): { promise: Promise<T>; isSettled: boolean } {
  const watched = { promise, isSettled: false };
  const note = () => {
    watched.isSettled = true;
  };
  promise.then(note, note);
  return watched;
}

/** One caller with the key and 63 strangers, at the same moment. Returns when the strangers have their results. */
async function submitAmongStrangers(orgId: string, unique: Submission['unique']) {
  const others = await ledger.newOrg();
  const held = watch(submit(orgId, { unique }));
  const strangers = Array.from({ length: 63 }, (_, n) => submit(others, n % 2 === 0 ? {} : { unique: { key: `s-${n}` } }));
  const results = await Promise.all(strangers);
  return { held, kinds: new Set(results.map(({ kind }) => kind)) };
}

const statesOf = async (orgId: string): Promise<string[]> =>
  (await ledger.db.api.query('SELECT state FROM millrace.jobs WHERE org_id = $1 ORDER BY seq', [orgId])).rows.map(({ state }) => state);

describe('a unique key that an open transaction of a user has used', () => {
  it('delays no other caller, and the next job replaces its job after the commit', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, { unique: REPLACE });
    const { held, kinds } = await submitAmongStrangers(orgId, REPLACE);
    expect(kinds).toEqual(new Set(['accepted']));
    expect(held.isSettled).toBe(false);
    await client.query('COMMIT');
    expect(await held.promise).toMatchObject({ kind: 'accepted', replacedId: expect.any(String) });
    expect(await statesOf(orgId)).toEqual(['cancelled', 'scheduled']);
  });

  it('is left out by the shared statement, which waits for nothing', async () => {
    const orgId = await ledger.newOrg();
    await submit(orgId, { unique: REPLACE });
    await holding(orgId, { unique: REPLACE });
    const failed: string[] = [];
    observeStatements((seen) => seen.failed && failed.push(seen.name));
    onTestFinished(() => observeStatements(null));
    const entries = [await prepare(orgId, { unique: REPLACE, idempotencyKey: 'i' }), await prepare(orgId, {})];
    expect(await submitShared(ledger.db.submitting, entries)).toMatchObject([{ kind: 'held' }, { kind: 'accepted' }]);
    expect(failed).toEqual([]);
    const { rowCount } = await ledger.db.api.query('SELECT FROM millrace.idempotency_keys WHERE org_id = $1', [orgId]);
    expect(rowCount).toBe(0);
  });

  it('is free after a rollback, and the job that was to be replaced is unchanged', async () => {
    const orgId = await ledger.newOrg();
    await submit(orgId, { unique: REPLACE });
    const client = await holding(orgId, { unique: REPLACE });
    const { held } = await submitAmongStrangers(orgId, { key: 'k' });
    await client.query('ROLLBACK');
    expect(await held.promise).toMatchObject({ kind: 'skipped' });
    expect(await statesOf(orgId)).toEqual(['scheduled']);
  });

  it('is refused to its caller alone when it is held for long', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, { unique: REPLACE });
    await expect(impatient.submitter.accept(await prepare(orgId, { unique: REPLACE }))).rejects.toMatchObject({
      ...{ code: 'UNAVAILABLE', retryAfterMs: 1_000 },
      message: expect.stringContaining('unique key'),
    });
    expect(await submit(orgId)).toMatchObject({ kind: 'accepted' });
    await client.query('ROLLBACK');
    expect(await submit(orgId, { unique: REPLACE })).toMatchObject({ kind: 'accepted' });
  });

  it('delays no other caller where the transaction did not announce it', async () => {
    const orgId = await ledger.newOrg();
    await submit(orgId, { unique: REPLACE });
    const client = await begin();
    await client.query('SELECT FROM millrace.unique_keys WHERE org_id = $1 FOR UPDATE', [orgId]);
    const { held, kinds } = await submitAmongStrangers(orgId, REPLACE);
    expect(kinds).toEqual(new Set(['accepted']));
    await client.query('COMMIT');
    expect(await held.promise).toMatchObject({ kind: 'accepted', replacedId: expect.any(String) });
  });

  it('a job row that another transaction holds delays no other caller', async () => {
    const orgId = await ledger.newOrg();
    await submit(orgId, { unique: REPLACE });
    const client = await begin();
    await client.query('SELECT FROM millrace.jobs WHERE org_id = $1 FOR UPDATE', [orgId]);
    const failed: string[] = [];
    observeStatements((seen) => seen.failed && failed.push(seen.name));
    onTestFinished(() => observeStatements(null));
    const entries = [await prepare(orgId, { unique: REPLACE, idempotencyKey: 'i' }), await prepare(orgId, {})];
    expect(await submitShared(ledger.db.submitting, entries)).toMatchObject([{ kind: 'held' }, { kind: 'accepted' }]);
    expect(failed).toEqual([]);
    const { rowCount } = await ledger.db.api.query('SELECT FROM millrace.idempotency_keys WHERE org_id = $1', [orgId]);
    expect(rowCount).toBe(0);
    await client.query('COMMIT');
  });

  it('two transactions that find a job with their key do not wait for each other', async () => {
    const orgId = await ledger.newOrg();
    await submit(orgId, { unique: { key: 'k' } });
    const unique = { key: 'k', until: 'started' } as const;
    await holding(orgId, { unique });
    const other = await holding(orgId, { unique });
    await other.query('COMMIT');
  });

  it('is known to the transaction itself', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, { unique: REPLACE });
    const entries = await Promise.all([1, 2].map(() => prepare(orgId, { unique: REPLACE })));
    const written = await parts.writer.writeTogether(entries, client);
    expect(written).toMatchObject([{ replacedId: expect.any(String) }, { replacedId: entries[0]?.id }]);
    await client.query('COMMIT');
    expect(await statesOf(orgId)).toEqual(['cancelled', 'cancelled', 'scheduled']);
  });
});

describe('a batch with a unique key that is held', () => {
  it('has its other jobs accepted, and the last of its jobs with the key wins', async () => {
    const orgId = await ledger.newOrg();
    const client = await holding(orgId, { unique: REPLACE });
    const entries = await Promise.all([REPLACE, { key: 'free' }, REPLACE, REPLACE].map((unique) => prepare(orgId, { unique })));
    const batch = watch(parts.writer.writeEach(entries));
    const isThere = 'SELECT FROM millrace.jobs WHERE id = $1';
    await until('the free job is there', async () => (await ledger.db.api.query(isThere, [entries[1]?.id])).rowCount, 1);
    expect(batch.isSettled).toBe(false);
    await client.query('COMMIT');
    const [first, , third, last] = await batch.promise;
    expect(first).toMatchObject({ kind: 'accepted', replacedId: expect.any(String) });
    expect(third).toMatchObject({ replacedId: entries[0]?.id });
    expect(last).toMatchObject({ id: entries[3]?.id, replacedId: entries[2]?.id });
  });
});
