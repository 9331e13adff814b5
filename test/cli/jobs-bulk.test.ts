/** Commands that change many jobs at once: they say how many, and need a confirmation. */
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { confirm } from '../../src/cli/confirm.ts';
import { Output } from '../../src/cli/output.ts';
import type { JobState } from '../../src/core/states.ts';
import { type TestJob, useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

let nextType = 0;

/** Two orgs, each with a job of the type in every one of the states. */
async function twoOrgs(states: readonly JobState[]) {
  const type = `bulk.${nextType++}`;
  const orgs = [await ledger.newOrg(), await ledger.newOrg()].sort();
  const jobs: TestJob[] = [];
  for (const orgId of orgs) for (const state of states) jobs.push(await ledger.putJob(state, { orgId, type }));
  const slugs = orgs.map((id) => `org-${id.slice(0, 13)}`) as [string, string];
  return { type, slugs, statesNow: () => Promise.all(jobs.map((job) => ledger.stateOf(job))) };
}

describe('jobs retry by filter', () => {
  it('counts, asks for confirmation, and retries what failed in the chosen orgs', async () => {
    const { type, slugs, statesNow } = await twoOrgs(['failed', 'dead_letter', 'completed']);
    const before = await statesNow();
    const args = ['jobs', 'retry', '--type', type];
    expect((await run([...args, '--org', slugs[0], '--dry-run'], here())).stdout).toBe('2 found: 2 would be retried, 0 skipped.\n');
    const asked = await run([...args, '--all-orgs'], here());
    expect(asked).toMatchObject({ code: 2, stdout: '' });
    expect(asked.stderr).toContain(`This would retry 4 jobs of 2 orgs (${slugs[0]} 2, ${slugs[1]} 2). Nothing was changed.`);
    expect(asked.stderr).toContain('Repeat it with --yes, or look first with --dry-run.');
    expect(await statesNow()).toEqual(before);

    const one = await ask([...args, '--org', slugs[0], '--state', 'dead_letter', '--reset', '--delay', '1h', '--yes'], here());
    expect(one).toEqual({ requested: 1, retried: 1, skipped: 0, errors: [], dryRun: false });
    expect(await statesNow()).toEqual(['failed', 'delayed', 'completed', 'failed', 'dead_letter', 'completed']);
    expect((await run([...args, '--all-orgs', '--yes'], here())).stdout).toBe('3 found: 3 retried, 0 skipped.\n');
    expect(await statesNow()).toEqual(['scheduled', 'delayed', 'completed', 'scheduled', 'scheduled', 'completed']);
    expect((await run([...args, '--all-orgs'], here())).stdout).toBe('0 found: 0 retried, 0 skipped.\n');
  });

  it('goes on with the other jobs when one cannot be retried, and says why', async () => {
    const { type, slugs } = await twoOrgs(['failed']);
    const args = ['jobs', 'retry', '--type', type, '--org', slugs[0], '--delay', '36500d', '--yes'];
    const { code, stdout } = await run(args, here());
    expect(code).toBe(0);
    expect(stdout).toMatch(/^1 found: 0 retried, 1 skipped\.\n[0-9a-f-]{36}: delay is longer than the remaining lifetime of the job/);
  });

  it('retries several jobs by id', async () => {
    const type = 'bulk.ids';
    const [failed, done] = [await ledger.putJob('failed', { type }), await ledger.putJob('completed', { type })];
    const { code, stdout } = await run(['jobs', 'retry', failed.id, done.id, '--all-orgs'], here());
    expect(code).toBe(1);
    expect(stdout).toMatch(new RegExp(`^${failed.id} +QUEUED +scheduled`, 'm'));
    expect(stdout).toMatch(new RegExp(`^${done.id} +NOT_RETRIABLE +completed`, 'm'));
  });
});

describe('jobs cancel by filter', () => {
  it('counts, asks for confirmation, and leaves other orgs alone', async () => {
    const { type, slugs, statesNow } = await twoOrgs(['scheduled']);
    const args = ['jobs', 'cancel', '--type', type];
    const asked = await run([...args, '--org', slugs[0], '--json'], here());
    expect(asked).toMatchObject({ code: 2, stdout: '' });
    expect(JSON.parse(asked.stderr).error).toMatchObject({ code: 'USAGE', message: expect.stringContaining('This would cancel 1 job of') });
    expect(await statesNow()).toEqual(['scheduled', 'scheduled']);
    expect(await ask([...args, '--org', slugs[0], '--yes'], here())).toMatchObject({ requested: 1, cancelled: 1 });
    expect(await statesNow()).toEqual(['cancelled', 'scheduled']);
    expect(await ask([...args, '--all-orgs', '--yes'], here())).toMatchObject({ cancelled: 1 });
    expect(await statesNow()).toEqual(['cancelled', 'cancelled']);
  });
});

describe('a confirmation in a terminal', () => {
  const plan = { command: 'jobs cancel', verb: 'cancel', jobs: 12, of: 'the org a\u001b[2Jb' };

  async function type(answer: string): Promise<{ asked: string; error: unknown }> {
    const input = Object.assign(new PassThrough(), { isTTY: true });
    const output = new PassThrough();
    input.write(`${answer}\n`);
    const error = await confirm(plan, new Output({ json: false, verbose: false }), { input, output }).then(() => null, Object);
    return { asked: String(output.read()), error };
  }

  it('is the number of jobs, and anything else changes nothing', async () => {
    expect(await type('12')).toEqual({
      asked: 'This will cancel 12 jobs of the org a\\u001b[2Jb. Type 12 to continue: ',
      error: null,
    });
    for (const answer of ['', 'y', 'yes', '1']) {
      expect((await type(answer)).error).toMatchObject({ message: 'You did not type 12. Nothing was changed.' });
    }
  });
});
