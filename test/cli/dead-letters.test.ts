import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { ACTIONS_BESIDE_KEYS } from '../ledger/audited-actions.ts';
import { type TestJob, useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

async function orgWithDead(count: number): Promise<{ org: string[]; jobs: TestJob[] }> {
  const orgId = await ledger.newOrg();
  const jobs: TestJob[] = [];
  // One type, so that they are one group; of its own, so that no claim takes a job of another test.
  const type = `dead.${orgId}`;
  for (let n = 0; n < count; n++) jobs.push(await ledger.putJob('dead_letter', { orgId, type }));
  return { org: ['--org', `org-${orgId.slice(0, 13)}`], jobs };
}

const statusOf = async ({ id }: TestJob): Promise<string> =>
  (await ledger.db.api.query('SELECT status FROM millrace.dead_letters WHERE job_id = $1', [id])).rows[0].status;

describe('millrace dlq', () => {
  it('lists, groups and shows dead letters', async () => {
    const { org, jobs } = await orgWithDead(2);
    const [job] = jobs as [TestJob];
    expect((await run(['dlq', 'list', ...org], here())).stdout.trim().split('\n')).toHaveLength(3);
    expect((await ask<{ groups: { count: number }[] }>(['dlq', 'groups', ...org], here())).groups.map(({ count }) => count)).toEqual([2]);
    expect((await run(['dlq', 'show', job.id, ...org], here())).stdout).toMatch(/^recommended +\w+\nstep 1 /m);
    expect((await run(['dlq', 'list', '--status', 'all', '--type', 'other', ...org], here())).stdout).toBe('No dead letter matches.\n');
    expect((await run(['dlq', 'list', '--status', 'gone', ...org], here())).code).toBe(2);
    expect((await run(['dlq', 'show', job.id], here())).code).toBe(1);
  });

  it('replays, discards, restores and fixes them', async () => {
    const { org, jobs } = await orgWithDead(3);
    const [replayed, discarded, fixed] = jobs as [TestJob, TestJob, TestJob];
    expect((await run(['dlq', 'replay', replayed.id, '--reason', 'r', ...org], here())).stdout).toBe(`Job ${replayed.id} is scheduled.\n`);
    expect((await run(['dlq', 'replay', replayed.id, ...org], here())).code).toBe(1);
    expect((await run(['dlq', 'discard', discarded.id, ...org], here())).stdout).toContain('is discarded.');
    expect(await statusOf(discarded)).toBe('discarded');
    expect((await run(['dlq', 'restore', discarded.id, ...org], here())).code).toBe(0);
    const file = join(await mkdtemp(join(tmpdir(), 'millrace-dlq-')), 'payload.json');
    await writeFile(file, '{"fine":true}');
    const { jobId, replacesJobId } = await ask<{ jobId: string; replacesJobId: string }>(
      ['dlq', 'fix', fixed.id, '--payload', `@${file}`, ...org],
      here(),
    );
    expect([replacesJobId, jobId === fixed.id]).toEqual([fixed.id, false]);
    expect(await Promise.all([replayed, discarded, fixed].map(statusOf))).toEqual(['replayed', 'open', 'fixed_forward']);
    expect((await run(['dlq', 'fix', discarded.id, '--patch', '{', ...org], here())).code).toBe(2);
    const { rows } = await ledger.db.api.query(`SELECT DISTINCT actor FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1`, [fixed.orgId]);
    expect(rows).toEqual([{ actor: 'user:operator' }]);
  });
});

describe('millrace operations', () => {
  it('creates, lists, controls and follows operations', async () => {
    const { org, jobs } = await orgWithDead(3);
    const create = ['operations', 'create', 'discard', ...org];
    expect((await run(create, here())).code).toBe(2);
    const preview = await ask<{ matching: number; sample: object[] }>([...create, '--all', '--dry-run'], here());
    expect([preview.matching, preview.sample.length]).toEqual([3, 3]);
    const { operation } = await ask<{ operation: { id: string; matching: number } }>([...create, '--all', '--rate', '1000'], here());
    expect(operation.matching).toBe(3);
    expect((await run(['operations', 'pause', operation.id, ...org], here())).stdout).toBe(`Operation ${operation.id} is paused.\n`);
    expect((await run(['operations', 'list', '--state', 'paused', ...org], here())).stdout).toContain(operation.id);
    expect((await run(['operations', 'show', operation.id, ...org], here())).stdout).toMatch(/^matching +3$/m);
    expect((await run(['operations', 'resume', operation.id, ...org], here())).code).toBe(0);
    const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
    await engine.open();
    await engine.start();
    try {
      const watched = await run(['operations', 'watch', operation.id, ...org], here());
      expect([watched.code, watched.stdout]).toEqual([
        0,
        `Operation ${operation.id} is completed: 3 of 3 done, 3 succeeded, 0 failed, 0 skipped.\n`,
      ]);
    } finally {
      await engine.stop();
    }
    const { items } = await ask<{ items: { jobId: string; result: string }[] }>(['operations', 'items', operation.id, ...org], here());
    expect(items.map(({ jobId, result }) => [jobId, result]).sort()).toEqual(jobs.map(({ id }) => [id, 'succeeded']).sort());
    expect((await run(['operations', 'stop', operation.id, ...org], here())).code).toBe(1);
    expect((await run(['operations', 'undo', operation.id, ...org], here())).code).toBe(0);
  });
});
