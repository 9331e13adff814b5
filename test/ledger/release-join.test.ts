import { describe, expect, test } from 'vitest';
import { checkLanded, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { type LeasedTestJob, type SubmitOverrides, settled, type TestJob, useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';

const ledger = useLedger();
useLockPatience(ledger);
const SUCCESS = { to: 'completed', reason: 'succeeded', result: '{"of":"parent"}' } as const;
const HOLD = { ...SUCCESS, holds: true } as const;

async function drain(): Promise<void> {
  while ((await releaseDependents(ledger.db.maintenance, 100)).consumed > 0);
}

const running = async (overrides: SubmitOverrides = {}) => ledger.start(await ledger.submitOne(overrides));

const child = (parent: TestJob, joinsParent = true) =>
  ledger.submitOne({ orgId: parent.orgId, placement: { parentSeq: parent.seq, joinsParent } });

const finish = async (job: TestJob) => ledger.settle(await ledger.start(job), SUCCESS);

async function heldWithChild(overrides: SubmitOverrides = {}): Promise<{ parent: LeasedTestJob; kid: TestJob }> {
  const parent = await running(overrides);
  const kid = await child(parent);
  await ledger.settle(parent, HOLD);
  return { parent, kid };
}

describe('a parent that waits for its children', () => {
  test('keeps running without a worker, its result stored and no event written [GM-6.05]', async () => {
    const parent = await running();
    await child(parent);
    const before = await ledger.rowOf(parent);
    expect(await ledger.settle(parent, HOLD)).toBe(true);
    expect(await ledger.rowOf(parent)).toMatchObject({
      state: 'running',
      is_held: true,
      worker_id: null,
      result: { of: 'parent' },
      updated_at: before.updated_at,
      completed_at: null,
      event_count: before.event_count,
    });
    expect(await ledger.eventsOf(parent)).toHaveLength(2);
    expect(await ledger.tokensOf(parent, 'waiting')).toBe(1);
    await drain();
    expect((await ledger.rowOf(parent)).is_held).toBe(true);
  });

  test('completes when the last child has ended, however it ended [GM-6.04] [GM-6.05]', async () => {
    const parent = await running();
    const kids = [await child(parent), await child(parent)];
    await ledger.settle(parent, HOLD);
    await finish(kids[0]!);
    await drain();
    expect(await ledger.stateOf(parent)).toBe('running');
    await ledger.settle(await ledger.start(kids[1]!), { to: 'failed', reason: 'permanent_failure' });
    await drain();
    expect(await ledger.rowOf(parent)).toMatchObject({ state: 'completed', is_held: false, result: { of: 'parent' } });
    expect(await ledger.pathOf(parent)).toEqual([
      'pending>scheduled:submitted',
      'scheduled>running:started',
      'running>completed:succeeded',
    ]);
    expect(await ledger.tokensOf(parent, 'waiting')).toBe(0);
  });

  test('completes at once without children, with children that ended, and with children that do not join', async () => {
    const alone = await running();
    const early = await running();
    await finish(await child(early));
    const loose = await running();
    await child(loose, false);
    for (const parent of [alone, early, loose]) {
      await ledger.settle(parent, HOLD);
      expect(await ledger.stateOf(parent)).toBe('completed');
    }
    await drain();
    expect(await ledger.eventsOf(early)).toHaveLength(3);
  });

  test('that does not hold completes before its children', async () => {
    const parent = await running();
    await child(parent);
    await ledger.settle(parent, SUCCESS);
    expect(await ledger.stateOf(parent)).toBe('completed');
  });

  test('gets the same answer when its worker asks again', async () => {
    const { parent } = await heldWithChild();
    expect(await ledger.settle(parent, HOLD)).toBe(false);
    expect(await checkLanded(ledger.db.workers, [parent])).toEqual(new Set([parent.leaseSeq]));
  });
});

describe('the end of the last child', () => {
  test('travels up through parents that wait in turn, and on to dependents [GM-6.05]', async () => {
    const top = await running();
    const middle = await ledger.start(await child(top));
    const bottom = await child(middle);
    const dependent = await ledger.submitOne({ orgId: top.orgId, dependsOn: [top] });
    await ledger.settle(top, HOLD);
    await ledger.settle(middle, HOLD);
    await drain();
    expect(await ledger.stateOf(dependent)).toBe('pending');
    await finish(bottom);
    await drain();
    const states = await Promise.all([middle, top, dependent].map((job) => ledger.stateOf(job)));
    expect(states).toEqual(['completed', 'completed', 'scheduled']);
  });

  test('is not missed when it comes while the parent is about to wait', async () => {
    const parent = await running();
    const kid = await ledger.start(await child(parent));
    const blocker = await ledger.db.api.connect();
    await blocker.query('BEGIN');
    await blocker.query('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', [parent.id]);
    const jobs = [settled(parent, HOLD)];
    const holding = settleJobs(ledger.db.workers, { workerId: parent.workerId, jobs, by: 'handler', closedClaims: [] });
    await ledger.untilBlocked();
    await ledger.settle(kid, SUCCESS);
    await drain();
    await blocker.query('COMMIT');
    blocker.release();
    expect(await holding).toMatchObject({ landed: new Set([parent.leaseSeq]), released: true });
    await drain();
    expect((await ledger.pathOf(parent)).at(-1)).toBe('running>completed:succeeded');
  });

  test('is not missed when two last children end at once', async () => {
    const parent = await running();
    const kids = [await ledger.start(await child(parent)), await ledger.start(await child(parent))];
    await ledger.settle(parent, HOLD);
    await Promise.all(
      kids.map(async (kid) => {
        await ledger.settle(kid, SUCCESS);
        await releaseDependents(ledger.db.maintenance, 1);
      }),
    );
    await drain();
    expect((await ledger.pathOf(parent)).filter((step) => step.includes('completed'))).toHaveLength(1);
  });
});

describe('a held parent', () => {
  test('is cancelled at once, since no handler is at work', async () => {
    const { parent, kid } = await heldWithChild();
    const params = { orgId: parent.orgId, projectId: null, ids: [parent.id], reason: null, actor: null, force: false };
    expect(await cancelJobs(ledger.db.api, params)).toMatchObject([{ id: parent.id, kind: 'cancelled', previousState: 'running' }]);
    expect(await ledger.rowOf(parent)).toMatchObject({ state: 'cancelled', is_held: false, result: null });
    await finish(kid);
    await drain();
    expect((await ledger.pathOf(parent)).at(-1)).toBe('running>cancelled:cancelled');
  });

  test('dies at the end of its lifetime [GM-4.08]', async () => {
    const { parent } = await heldWithChild({ policy: { lifetimeMs: 60_000 } });
    await ledger.moveClock(60_001);
    expect(await expireJobs(ledger.db.maintenance, 100)).toMatchObject({ expired: 1 });
    expect((await ledger.pathOf(parent)).at(-1)).toBe('running>dead_letter:lifetime_exceeded');
    expect(await ledger.rowOf(parent)).toMatchObject({ is_held: false, result: null });
  });
});
