import { describe, expect, test } from 'vitest';
import { type ClaimParams, claimAndStart, claimAndStartInTurn } from '../../src/ledger/attempts/claim-and-start.ts';
import { claimJobs, claimJobsInTurn, leaseAheadInTurn } from '../../src/ledger/attempts/claim-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const FIRST_TURN = { cursors: [], lastTurns: new Map(), owned: new Map() };

const CLAIMS = {
  claimAndStart: async (params: ClaimParams) => (await claimAndStart(ledger.db.workers, params)).jobs,
  claimAndStartInTurn: async (params: ClaimParams) => (await claimAndStartInTurn(ledger.db.workers, { ...params, ...FIRST_TURN })).jobs,
  claimJobs: async (params: ClaimParams) => (await claimJobs(ledger.db.workers, params)).jobs,
  claimJobsInTurn: async (params: ClaimParams) => (await claimJobsInTurn(ledger.db.workers, { ...params, ...FIRST_TURN })).jobs,
  leaseAheadInTurn: async (params: ClaimParams) => (await leaseAheadInTurn(ledger.db.workers, { ...params, ...FIRST_TURN })).jobs,
} as const;

describe.each(Object.entries(CLAIMS))('%s', (_, claim) => {
  /** Two queues, each with an urgent job and two others; those of the second came later. */
  async function putLines() {
    const orgId = await ledger.newOrg();
    const type = `turns-${orgId}`;
    const put = (queue: string, priority: number) => ledger.submitOne({ orgId, type, job: { queue, priority } });
    const a = [await put('q:a', 2), await put('q:a', 2), await put('q:a', 0)];
    const b = [await put('q:b', 2), await put('q:b', 2), await put('q:b', 0)];
    const workerId = await ledger.registerWorker();
    let claimNo = 0;
    const take = async (ranks: Record<'q:a' | 'q:b', number>, limit: number) => {
      const queues = Object.entries(ranks).flatMap(([queue, rank]) => [0, 2].map((priority) => ({ queue, rank, priority })));
      const ranges = queues.map((range) => ({ ...range, jobType: type, floor: 0, inTurn: true }));
      return (await claim({ workerId, ranges, limit, claimNo: ++claimNo })).map(({ seq }) => seq).sort((x, y) => x - y);
    };
    return { a: a.map(({ seq }) => seq), b: b.map(({ seq }) => seq), take };
  }

  test('takes from the ranges of the lowest rank first, though the keys of others are lower', async () => {
    const { a, b, take } = await putLines();
    await take({ 'q:a': 0, 'q:b': 0 }, 2);
    expect(await take({ 'q:a': 1, 'q:b': 0 }, 1)).toEqual([b[0]]);
    expect(await take({ 'q:a': 0, 'q:b': 1 }, 1)).toEqual([a[0]]);
    expect(await take({ 'q:a': 1, 'q:b': 0 }, 2)).toEqual([a[1], b[1]]);
  });

  test('takes urgent jobs before it compares ranks', async () => {
    const { a, b, take } = await putLines();
    expect(await take({ 'q:a': 1, 'q:b': 0 }, 1)).toEqual([b[2]]);
    expect(await take({ 'q:a': 1, 'q:b': 0 }, 1)).toEqual([a[2]]);
  });

  test('takes by submission where ranks are equal', async () => {
    const { a, b, take } = await putLines();
    expect(await take({ 'q:a': 0, 'q:b': 0 }, 4)).toEqual([a[0], a[1], a[2], b[2]]);
  });
});
