// node bench/search.ts [--jobs 1000000] [--rounds 50]: fills one org with finished jobs and prints the p99 of the first page of every
// documented search and of the stats. Fails when one takes longer than 50 ms.

import { parseArgs } from 'node:util';
import pg from 'pg';
import { wholeOrg } from '../src/core/owner.ts';
import { Millrace } from '../src/index.ts';
import { DEFAULT_ORG_ID } from '../src/ledger/access/orgs.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { projectRollups } from '../src/ledger/history/rollups.ts';
import { type Breakdown, countJobs } from '../src/ledger/reads/count-jobs.ts';
import { SEARCH_ORDERS, type SearchOrder } from '../src/ledger/search/search-cursor.ts';
import { type JobFilter, searchJobs } from '../src/ledger/search/search-jobs.ts';
import { openScratch } from './scratch-database.ts';
import { percentile } from './workload.ts';

const { values } = parseArgs({ options: { jobs: { type: 'string' }, rounds: { type: 'string' } } });
const JOBS = Number(values.jobs ?? 1_000_000);
const ROUNDS = Number(values.rounds ?? 50);
const BAR_MS = 50;
const SLICE = 20_000;
const HOURS = 10;

// One job in 100 000 is rare in each filter. The others are like an ordinary ledger, with three events each.
const FILL = `
WITH made AS (
  SELECT nextval('millrace.job_seq') AS seq, gen_random_uuid() AS id, i,
    millrace.clock() - interval '${HOURS} hours' * (1 - i::float8 / $2::float8) AS created_at,
    CASE WHEN i % 100000 = 7 THEN 'rare' WHEN i % 20 = 0 THEN 'etl' WHEN i % 4 = 0 THEN 'report' ELSE 'mail' END AS job_type,
    CASE WHEN i % 100000 = 11 THEN 0 WHEN i % 10 = 0 THEN 1 ELSE 2 END AS priority,
    (CASE WHEN i % 100000 = 13 THEN 'dead_letter' WHEN i % 200 = 3 THEN 'failed' WHEN i % 1000 = 5 THEN 'cancelled'
      ELSE 'completed' END)::millrace.job_state AS state,
    CASE WHEN i % 100000 = 17 THEN '{"customer":"42","env":"prod"}'::jsonb
      WHEN i % 3 = 0 THEN jsonb_build_object('env', CASE WHEN i % 2 = 0 THEN 'prod' ELSE 'test' END) END AS tags
  FROM generate_series($1::int8, $1::int8 + ${SLICE} - 1) i
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, started_at, completed_at, order_key, policy_id,
    state, priority, requested_priority, attempts_started, max_attempts, event_count, record_ids, queue, job_type, tags, payload, started_lease_seq)
  SELECT seq, '${DEFAULT_ORG_ID}', id, created_at, created_at + interval '90 ms', created_at, created_at, created_at + interval '20 ms',
    created_at + interval '90 ms', seq, (SELECT min(id) FROM millrace.policies), state, priority, priority, 1, 3, 3, ARRAY[1000000001 + 4 * seq, 1000000002 + 4 * seq, 1000000003 + 4 * seq], 'q:default',
    job_type, tags, '{"to":"someone@example.com","template":"welcome"}', seq FROM made
)
INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, reason, seqs, ns, lease_seqs, attempts, took_ms)
SELECT 1000000000 + 4 * m.seq + e.n, m.created_at + e.later, '${DEFAULT_ORG_ID}', e.from_state::millrace.job_state,
  coalesce(e.to_state::millrace.job_state, m.state), m.priority, e.n = 1 AND m.tags IS NOT NULL, m.job_type,
  coalesce(e.reason, CASE m.state WHEN 'completed' THEN 'succeeded' WHEN 'failed' THEN 'permanent_failure' WHEN 'dead_letter' THEN 'attempts_exhausted' ELSE 'cancelled' END), ARRAY[m.seq],
  CASE WHEN e.n > 1 THEN ARRAY[e.n] END, ARRAY[m.seq], ARRAY[least(e.n - 1, 1)], CASE e.n WHEN 2 THEN ARRAY[20] WHEN 3 THEN ARRAY[70] END
FROM made m CROSS JOIN (VALUES (1, interval '0', 'pending', 'scheduled', 'submitted'), (2, interval '20 ms', 'scheduled', 'running', 'started'),
  (3, interval '90 ms', 'running', NULL, NULL)) AS e(n, later, from_state, to_state, reason)`;

const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000);
const FILTERS: Record<string, JobFilter> = {
  'no filter': {},
  'types: common': { types: ['mail'] },
  'types: two': { types: ['etl', 'report'] },
  'types: rare': { types: ['rare'] },
  'types: unknown': { types: ['nothing-like-it'] },
  'states: COMPLETED': { states: ['completed'] },
  'states: FAILED': { states: ['failed'] },
  'states: DEAD_LETTER': { states: ['dead_letter'] },
  'states: CANCELLED, RETRYING': { states: ['cancelled', 'retrying'] },
  'states: SCHEDULED': { states: ['scheduled'] },
  'states: RUNNING (none)': { states: ['running'] },
  'priorities: HIGH': { priorities: ['HIGH'] },
  'priorities: CRITICAL': { priorities: ['CRITICAL'] },
  'priorities: LOW (none)': { priorities: ['LOW'] },
  'tags: common': { tags: { env: 'prod' } },
  'tags: rare': { tags: { customer: '42' } },
  'tags: none': { tags: { customer: '43' } },
  'created_after: 1 min': { createdAfter: ago(1 / 60) },
  'created_before: 9 h': { createdBefore: ago(9) },
  'created between': { createdAfter: ago(6), createdBefore: ago(5) },
  'created before all': { createdBefore: ago(100) },
  'updated_after: 1 min': { updatedAfter: ago(1 / 60) },
  'updated_after: 5 h': { updatedAfter: ago(5) },
  'rare type + FAILED': { types: ['rare'], states: ['failed'] },
  'common type + FAILED + tag': { types: ['mail'], states: ['failed'], tags: { env: 'prod' } },
  'etl + DEAD_LETTER + HIGH': { types: ['etl'], states: ['dead_letter'], priorities: ['HIGH'] },
  'two common, never together': { types: ['etl'], tags: { env: 'none' }, priorities: ['NORMAL'] },
  'two common, disjoint': { types: ['etl'], priorities: ['NORMAL'] },
  'all at once': {
    types: ['mail', 'report'],
    states: ['completed', 'failed'],
    priorities: ['NORMAL', 'HIGH'],
    tags: { env: 'test' },
    createdAfter: ago(8),
    createdBefore: ago(3),
    updatedAfter: ago(7),
  },
};

const say = (line: string) => process.stderr.write(`${line}\n`);
const scratch = await openScratch();
const url = await scratch.fresh('search');
const millrace = await Millrace.open({ database: url });
const db = openDatabase({ url });
const client = new pg.Client(url);
await client.connect();
say(`filling: ${JOBS} finished jobs ...`);
for (let first = 0; first < JOBS; first += SLICE) await client.query(FILL, [first, JOBS]);
await client.query('VACUUM (ANALYZE) millrace.jobs');
say('projecting ...');
const startedMs = performance.now();
let projected = 0;
for (let more = true; more; ) {
  const round = await projectRollups(db.maintenance);
  if (round.kind === 'busy') continue;
  projected += round.events;
  more = round.hasMore;
}
say(`${(((performance.now() - startedMs) * 1_000) / projected).toFixed(2)} us an event`);
await millrace.submitMany(Array.from({ length: 20 }, () => ({ type: 'live', payload: {} })));

let missed = 0;
function report(what: string, times: readonly number[], note: string): void {
  const p99 = percentile(times, 0.99);
  if (p99 > BAR_MS) missed++;
  const [p50, flag] = [percentile(times, 0.5), p99 > BAR_MS ? '  MISSED' : ''];
  console.log(`${what.padEnd(46)} p50 ${p50.toFixed(1).padStart(6)} ms   p99 ${p99.toFixed(1).padStart(6)} ms   ${note}${flag}`);
}

async function measure(what: string, work: () => Promise<string>): Promise<void> {
  const times: number[] = [];
  let note = await work();
  for (let round = 0; round < ROUNDS; round++) {
    const beganMs = performance.now();
    note = await work();
    times.push(performance.now() - beganMs);
  }
  report(what, times, note);
}

for (const [name, filter] of Object.entries(FILTERS)) {
  for (const order of SEARCH_ORDERS) {
    await measure(`${name}, ${order satisfies SearchOrder}`, async () => {
      const found = await searchJobs(db.searches.of(DEFAULT_ORG_ID), wholeOrg(DEFAULT_ORG_ID), filter, { order });
      return `${found.jobs.length} of ${found.totalIsEstimate ? '~' : ''}${found.totalCount}${found.hasMore ? ' and more' : ''}`;
    });
  }
}
const breakdownBy: Breakdown[] = ['TYPE', 'PRIORITY', 'STATE'];
for (const [name, sinceMs] of Object.entries({ '1 minute': 60_000, '1 hour': 3_600_000, '30 days': 30 * 86_400_000 })) {
  await measure(`stats, ${name}`, async () => {
    const counts = await countJobs(db.api, DEFAULT_ORG_ID, { sinceMs, breakdownBy });
    return `${counts.states.completed} completed, queue p99 ${counts.queueLatency?.p99Ms.toFixed(1)} ms`;
  });
}
await client.end();
await db.close();
await millrace.close();
await scratch.close();
process.exitCode = missed === 0 ? 0 : 1;
