import { describe, expect, test } from 'vitest';
import { checkInvariants } from '../../src/ledger/invariants.ts';
import { pruneJobs } from '../../src/ledger/prune.ts';
import { submitJobs } from '../../src/ledger/submit-jobs.ts';
import { type JobChange, updateJob } from '../../src/ledger/update-job.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const KEYED = { idempotencyKey: 'k', fingerprint: 'f' };

const violations = () => checkInvariants(ledger.db.maintenance);
const update = (job: { orgId: string; id: string }, change: JobChange) => updateJob(ledger.db.api, { ...job, change });

describe('a job whose type is changed', () => {
  const submit = async (orgId: string, type: string) => {
    const entry = await ledger.toWrite(orgId, { type, job: KEYED, policy: { retentionMs: 0 } });
    const [written] = await submitJobs(ledger.db.api, [entry], new Set());
    return { orgId, id: entry.id, written };
  };

  test('keeps its key under the type it was sent with, where a repeat of the request finds it [GM-1.12]', async () => {
    const orgId = await ledger.newOrg();
    const job = await submit(orgId, 'old');
    for (const type of ['new', 'newer']) await update(job, { type });
    expect((await submit(orgId, 'old')).written).toEqual({ kind: 'duplicate', existingId: job.id, sameRequest: true });
    expect((await submit(orgId, 'newer')).written).toMatchObject({ kind: 'accepted' });
    expect(await violations()).toEqual([]);
  });

  test('takes its key along when it is pruned', async () => {
    const orgId = await ledger.newOrg();
    const type = `old-${orgId}`;
    const job = await submit(orgId, type);
    const jobType = `new-${orgId}`;
    await update(job, { type: jobType });
    const { seq } = (await ledger.rowOf(job)) as unknown as { seq: number };
    await ledger.settle(await ledger.start({ ...job, seq, jobType }), { to: 'completed', reason: 'succeeded' });
    expect((await pruneJobs(ledger.db.maintenance, 100)).jobs).toBe(1);
    expect((await submit(orgId, type)).written).toMatchObject({ kind: 'accepted' });
  });
});
