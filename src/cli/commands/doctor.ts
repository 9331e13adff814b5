import type { Database } from '../../ledger/driver/database.ts';
import { checkSchema } from '../../ledger/driver/migrate.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { checkInvariants, type Violation } from '../../ledger/upkeep/invariants.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withDatabase } from '../connection.ts';
import type { Output } from '../output.ts';
import { textTable } from '../text-table.ts';

/** Total: an invariant that the ledger checks cannot go without words. */
const CHECKS = {
  I3: 'one job for an idempotency key within its window',
  I4: 'every history is a chain of legal changes of state',
  I5: 'every job says what its last event says',
  I6: 'nothing starts again without a reason to',
  I7: 'every event is one delivery for each target it is for',
  I8: 'no row mixes orgs',
  I9: 'no two leases hold a job at once',
  T1: 'every job that waits can be found by what moves it on',
  T2: 'every lease can be found by what rescues it',
} as const satisfies Record<Violation['invariant'], string>;

const MOST_SHOWN = 20;

export const doctor = defineCommand({
  name: 'doctor',
  summary: 'check that the ledger contradicts itself nowhere',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: {},
  details:
    'Reads the whole ledger, of all orgs, and changes nothing. Jobs may move meanwhile. Exits with 1 when something is wrong.',
  examples: ['millrace doctor', 'millrace doctor --json'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const { out } = invocation;
  const { violations, jobs } = await withDatabase(invocation, (database) => examine(database, out));
  const checks = Object.entries(CHECKS).map(([invariant, says]) => ({
    invariant,
    says,
    violations: violations.filter((violation) => violation.invariant === invariant).length,
  }));
  const ok = violations.length === 0;
  out.answer({ ok, jobs, checks, violations }, () => [
    ...textTable(
      ['check', 'result', 'what holds'],
      checks.map((check) => [check.invariant, resultOf(check.violations), check.says]),
    ),
    '',
    ...violations.slice(0, MOST_SHOWN).map(({ invariant, jobId, what }) => `${invariant} job ${jobId}: ${what}`),
    ...(violations.length > MOST_SHOWN ? [`and ${violations.length - MOST_SHOWN} more: --json shows all`] : []),
    ok
      ? out.paint('green', `All is well: ${jobs} ${jobs === 1 ? 'job' : 'jobs'} checked.`)
      : out.paint('red', `${violations.length} found wrong in ${jobs} ${jobs === 1 ? 'job' : 'jobs'}.`),
  ]);
  return ok ? EXIT.ok : EXIT.failed;
}

const resultOf = (violations: number): string => (violations === 0 ? 'ok' : `${violations} found`);

async function examine(database: Database, out: Output): Promise<{ violations: Violation[]; jobs: number }> {
  await checkSchema(database.maintenance);
  let jobs = 0;
  const counted: Queryable = {
    async query(config) {
      out.progress(jobs === 0 ? 'Comparing tables ...' : `Reading histories: ${jobs} jobs ...`);
      const result = await database.maintenance.query(config);
      if (config.name === 'millrace_check_histories') jobs += result.rows.length;
      return result;
    },
  };
  const violations = await checkInvariants(counted);
  out.progress('');
  return { violations, jobs };
}
