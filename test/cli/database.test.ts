import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { emptyDatabase } from '../ledger/test-database.ts';
import { LOCK_JOBS, whileHolding } from '../ledger/while-holding.ts';
import { ask, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

async function untouchedDatabase(): Promise<string> {
  const { url, drop } = await emptyDatabase();
  onTestFinished(drop);
  return url;
}

describe('migrate', () => {
  it('makes the schema once; until then a shared database is left as it is', async () => {
    const database = await untouchedDatabase();
    const early = await run(['jobs', 'list', '--database', database]);
    expect(early.code).toBe(1);
    expect(early.stderr).toContain('Run "millrace migrate".');
    const first = await run(['migrate', '--database', database]);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(/^applied 0001_engine\n(applied .*\n)*The schema is at version \d+\.\n$/);
    const again = await run(['migrate'], { database });
    expect(again.stdout).toMatch(/^The schema is up to date \(version \d+\)\.\n$/);
    expect(await ask(['migrate'], { database })).toEqual({ version: expect.any(Number), applied: [] });
    expect((await run(['jobs', 'list'], { database })).code).toBe(0);
  });
});

describe('doctor', () => {
  it('finds nothing wrong with a sound ledger', async () => {
    for (const state of ['pending', 'delayed', 'scheduled', 'running', 'completed', 'cancelled'] as const) await ledger.putJob(state);
    const { code, stdout } = await run(['doctor'], here());
    expect(code).toBe(0);
    for (const check of ['I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'T1', 'T2']) expect(stdout).toMatch(new RegExp(`^${check} +ok `, 'm'));
    expect(stdout).toMatch(/All is well: \d+ jobs checked\.\n$/);
  });

  it('names what is wrong, and ends with 1', async () => {
    const job = await ledger.putJob('scheduled', { orgId: DEFAULT_ORG_ID });
    await ledger.db.api.query('DELETE FROM millrace.ready WHERE seqs = ARRAY[$1::int8]', [job.seq]);
    const people = await run(['doctor'], here());
    expect(people.code).toBe(1);
    expect(people.stdout).toMatch(/^T1 +1 found /m);
    expect(people.stdout).toContain(`T1 job ${job.id}: a scheduled job has no ready token`);
    const programs = await run(['doctor', '--json'], here());
    expect(programs.code).toBe(1);
    const told = JSON.parse(programs.stdout);
    expect(told).toMatchObject({ ok: false, violations: [{ invariant: 'T1', orgId: DEFAULT_ORG_ID, jobId: job.id }] });
    expect(told.checks).toContainEqual({ invariant: 'T1', says: expect.any(String), violations: 1 });
    expect(told.jobs).toBeGreaterThan(0);
  });
});

describe('a short command', () => {
  it('ends with 130 when it is interrupted', async () => {
    await whileHolding({ url: ledger.db.url, text: LOCK_JOBS }, async () => {
      const doctor = start(['doctor'], here());
      await ledger.untilBlocked();
      doctor.kill('SIGINT');
      expect(await doctor.ended).toMatchObject({ code: 130, stdout: '' });
    });
  });
});
