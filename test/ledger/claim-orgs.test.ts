/** A claim in turns between orgs, held to a model that gives out one job at a time. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { claimAndStartInTurn, type ReadyRange, type TurnParams, turnParametersOf } from '../../src/ledger/attempts/claim-and-start.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();
const ORGS = 4;

type OrgCase = {
  /** The priorities of its waiting jobs, in the order of submission. Jobs that follow each other may share a run. */
  jobs: number[];
  owned: number;
  lastTurn: number;
  /** What its cap leaves. */
  room: number | null;
};

const orgCase = fc.record({
  jobs: fc.array(fc.constantFrom(1, 2), { maxLength: 7 }),
  owned: fc.integer({ min: 0, max: 3 }),
  lastTurn: fc.integer({ min: 0, max: 9 }),
  room: fc.option(fc.integer({ min: 0, max: 4 }), { freq: 3 }),
});

type ClaimCase = { orgs: OrgCase[]; limit: number; typeRoom: number | null; fewerThan: number | undefined };

const claimCase: fc.Arbitrary<ClaimCase> = fc.record({
  orgs: fc.array(orgCase, { minLength: 1, maxLength: ORGS }),
  limit: fc.integer({ min: 1, max: 8 }),
  typeRoom: fc.option(fc.integer({ min: 1, max: 6 }), { freq: 3 }),
  fewerThan: fc.constantFrom(undefined, 1, 2),
});

type Waiting = { org: number; priority: number; seq: number };

/** Takes the next job of the org that has the fewest, then of the one that was served longest ago, then the oldest. */
function expectedOf(waiting: readonly Waiting[], { orgs, limit, typeRoom, fewerThan }: ClaimCase): number[] {
  const most = Math.min(limit, typeRoom ?? limit);
  const given: Waiting[] = [];
  const takenOf = (org: number, priority?: number) =>
    given.filter((job) => job.org === org && (priority === undefined || job.priority === priority)).length;
  const mayTake = ({ org }: Waiting): boolean => {
    const { owned, room } = orgs[org] as OrgCase;
    if (takenOf(org) >= (room ?? Number.POSITIVE_INFINITY)) return false;
    return fewerThan === undefined || (owned < fewerThan && takenOf(org) === 0);
  };
  const key = ({ org, priority, seq }: Waiting): number[] => {
    const { owned, lastTurn } = orgs[org] as OrgCase;
    return [priority, owned + takenOf(org, priority), lastTurn, seq];
  };
  while (given.length < most) {
    const next = waiting.filter((job) => !given.includes(job) && mayTake(job)).toSorted((a, b) => compare(key(a), key(b)))[0];
    if (next === undefined) break;
    given.push(next);
  }
  return given.map(({ seq }) => seq).toSorted((a, b) => a - b);
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) if (value !== b[index]) return value - (b[index] as number);
  return 0;
}

const rangesOf = (type: string): ReadyRange[] =>
  [0, 1, 2, 3, 4].map((priority) => ({ queue: 'q:default', jobType: type, priority, floor: 0, inTurn: true }));

describe('a claim in turns', () => {
  test('gives each free slot to the org that has the fewest jobs, within priorities and caps', async () => {
    const ids = await Promise.all(Array.from({ length: ORGS }, () => ledger.newOrg()));
    const workerId = await ledger.registerWorker();
    let claimNo = 0;
    await fc.assert(
      fc.asyncProperty(claimCase, async (given) => {
        const type = `turns-${randomUUID()}`;
        const waiting: Waiting[] = [];
        for (const [org, { jobs }] of given.orgs.entries())
          for (const priority of jobs) {
            const { seq }: TestJob = await ledger.submitOne({ orgId: ids[org] as string, type, job: { priority } });
            waiting.push({ org, priority, seq });
          }
        const byOrg = <T>(value: (org: OrgCase) => T) => given.orgs.map((org, index) => [ids[index] as string, value(org)] as const);
        const params: TurnParams = {
          workerId,
          ranges: rangesOf(type),
          limit: given.limit,
          claimNo: ++claimNo,
          cursors: [],
          owned: new Map(byOrg(({ owned }) => owned).filter(([, owned]) => owned > 0)),
          lastTurns: new Map(byOrg(({ lastTurn }) => lastTurn)),
          fewerThan: given.fewerThan,
          room: {
            types: new Map(given.typeRoom === null ? [] : [[type, given.typeRoom]]),
            orgs: new Map(byOrg(({ room }) => room).flatMap(([org, room]) => (room === null ? [] : [[org, room]]))),
          },
        };
        const { jobs } = await claimAndStartInTurn(ledger.db.workers, params);
        expect(jobs.map(({ seq }) => seq).toSorted((a, b) => a - b)).toEqual(expectedOf(waiting, given));
      }),
      { numRuns: 60 },
    );
  });

  test('divides runs of many jobs, and takes each run from its front', async () => {
    const [a, b] = [await ledger.newOrg(), await ledger.newOrg()];
    const type = `runs-${a}`;
    const submitted = async (orgId: string): Promise<string[]> => {
      const entries = await Promise.all(Array.from({ length: 40 }, () => ledger.toWrite(orgId, { type })));
      await submitJobs(ledger.db.api, entries);
      return entries.map(({ id }) => id);
    };
    const [ofA, ofB] = [await submitted(a), await submitted(b)];
    const workerId = await ledger.registerWorker();
    const take = async (claimNo: number, limit: number) => {
      const turns = { cursors: [], lastTurns: new Map(), owned: new Map() };
      const { jobs } = await claimAndStartInTurn(ledger.db.workers, { workerId, ranges: rangesOf(type), limit, claimNo, ...turns });
      return [a, b].map((org) => jobs.filter(({ orgId }) => orgId === org).map(({ id }) => id));
    };
    expect(await take(1, 10)).toEqual([ofA.slice(0, 5), ofB.slice(0, 5)]);
    expect(await take(2, 10)).toEqual([ofA.slice(5, 10), ofB.slice(5, 10)]);
    expect((await take(3, 100)).map((each) => each.length)).toEqual([30, 30]);
  });

  test('reads a few jobs of each org, by a plan that was made when the table was empty', async () => {
    const type = 'planned';
    const session = await ledger.db.workers.connect();
    try {
      const { text } = allStatements().find(({ name }) => name === 'millrace_claim_and_start_in_turn') as { text: string };
      const params = { workerId: 1, ranges: rangesOf(type), limit: 4, claimNo: 1, cursors: [], lastTurns: new Map(), owned: new Map() };
      const explain = async () => {
        await session.query('BEGIN');
        const query = { name: 'planned', text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values: turnParametersOf(params) };
        const { rows } = await session.query(query);
        await session.query('ROLLBACK');
        return rows[0]['QUERY PLAN'][0].Plan as Record<string, number>;
      };
      await explain();
      await session.query(`INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs)
        SELECT n, CASE WHEN n <= 20000 THEN '00000000-0000-4000-8000-000000000000' ELSE gen_random_uuid() END, 2, 'q:default', '${type}', ARRAY[n]
        FROM generate_series(1, 20100) n`);
      const plan = await explain();
      expect((plan['Shared Hit Blocks'] as number) + (plan['Shared Read Blocks'] as number)).toBeLessThan(400);
    } finally {
      session.release(true);
    }
  });
});
