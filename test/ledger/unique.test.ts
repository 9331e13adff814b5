/** What becomes of a submission whose unique key a job in each state has, alone and in a transaction. */
import { describe, expect, it } from 'vitest';
import { JOB_STATES, type JobState } from '../../src/core/states.ts';
import { type JobUnique, ON_CONFLICT, type OnConflict, UNIQUE_UNTIL, type UniqueUntil } from '../../src/core/unique.ts';
import { leaseAhead } from '../../src/ledger/attempts/claim-jobs.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { type Attempted, submitJobs, submitShared } from '../../src/ledger/jobs/submit-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();

const TYPE = 'unique';
const KEY: JobUnique = { key: 'k', until: 'finished', onConflict: 'skip' };

/** `leased`: claimed and not started. `ahead`: its handler may run before its start is written. */
type Where = JobState | 'leased' | 'ahead';

async function jobIn(where: Where): Promise<TestJob> {
  const type = `${TYPE}-${Math.random()}`;
  const overrides = { type, job: { unique: KEY } };
  if (where !== 'leased' && where !== 'ahead') return ledger.putJob(where, overrides);
  const job = await ledger.putJob('scheduled', overrides);
  if (where === 'leased') return ledger.lease(job);
  const range = { queue: 'q:default', jobType: type, priority: 2, floor: 0 };
  const { jobs } = await leaseAhead(ledger.db.workers, { workerId: await ledger.registerWorker(), ranges: [range], limit: 1, claimNo: 1 });
  expect(jobs).toHaveLength(1);
  return job;
}

const WAITS: readonly Where[] = ['pending', 'delayed', 'scheduled', 'retrying'];
const RUNS: readonly Where[] = ['running', 'leased', 'ahead'];

function expected(where: Where, until: UniqueUntil, onConflict: OnConflict): 'new' | 'replaced' | 'skipped' | 'updated' {
  if (RUNS.includes(where)) return until === 'started' ? 'new' : 'skipped';
  if (!WAITS.includes(where)) return 'new';
  return ({ skip: 'skipped', replace: 'replaced', replace_payload: 'updated' } as const)[onConflict];
}

function outcomeOf(attempted: Attempted | undefined, before: TestJob): string {
  if (attempted?.kind === 'accepted')
    return attempted.replacedId === undefined ? 'new' : attempted.replacedId === before.id ? 'replaced' : 'wrong';
  if (attempted?.kind === 'skipped' || attempted?.kind === 'updated') return attempted.existingId === before.id ? attempted.kind : 'wrong';
  return attempted?.kind ?? 'nothing';
}

describe.each(['alone', 'in a transaction'] as const)('%s', (how) => {
  it.each<Where>([...JOB_STATES, 'leased', 'ahead'])('while a %s job has the key', async (where) => {
    for (const until of UNIQUE_UNTIL) {
      for (const onConflict of ON_CONFLICT) {
        const before = await jobIn(where);
        const entry = await ledger.toWrite(before.orgId, { type: before.jobType, job: { unique: { key: 'k', until, onConflict } } });
        const [written] =
          how === 'alone'
            ? await submitShared(ledger.db.submitting, [entry])
            : await inTransaction(ledger.db.api, (client) => submitJobs(client, [entry]));
        expect({ until, onConflict, outcome: outcomeOf(written, before) }).toEqual({
          ...{ until, onConflict },
          outcome: expected(where, until, onConflict),
        });
      }
    }
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  });
});

it('a job with a unique key has its own row of ready, so that nobody holds up its neighbours', async () => {
  const orgId = await ledger.newOrg();
  const type = `${TYPE}-rows`;
  const entries = await Promise.all([0, 1, 2].map((n) => ledger.toWrite(orgId, { type, ...(n === 1 ? { job: { unique: KEY } } : {}) })));
  await submitShared(ledger.db.submitting, entries);
  const { rows } = await ledger.db.api.query('SELECT cardinality(seqs) AS jobs FROM millrace.ready WHERE job_type = $1', [type]);
  expect(rows).toEqual([{ jobs: 1 }, { jobs: 1 }, { jobs: 1 }]);
});
