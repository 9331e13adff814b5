import type { Database } from '../../ledger/driver/database.ts';
import { checkSchema } from '../../ledger/driver/migrate.ts';
import { NO_SECOND_LOCK, prepareReader } from '../../ledger/driver/reader-role.ts';
import { checkInvariants, type Violation } from '../../ledger/upkeep/invariants.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withDatabase } from '../connection.ts';
import type { Output } from '../output.ts';
import { textTable } from '../text-table.ts';

/** Total, so that every invariant of the ledger must be described here. */
const CHECKS = {
  I3: 'an idempotency key has one job within its window',
  I4: 'every history is an unbroken chain of legal transitions',
  I5: 'the state of every job matches its last event',
  I6: 'an attempt starts again only after a failure, a lost lease or a retry',
  I7: 'every event has one delivery for each of its targets',
  I8: 'no row refers to a row of another org',
  I9: 'at most one lease holds a job',
  T1: 'every waiting job has the token that lets it continue',
  T2: 'every lease can be taken over if its worker dies',
  T3: 'no job with a limit runs without a grant',
} as const satisfies Record<Violation['invariant'], string>;

const MOST_SHOWN = 20;

export const doctor = defineCommand({
  name: 'doctor',
  summary: 'check the database for inconsistencies',
  details: 'Reads the jobs of all orgs and changes nothing. Jobs may run meanwhile. Exits with 1 if a check fails.',
  examples: ['millrace doctor', 'millrace doctor --json'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const { out } = invocation;
  const { violations, jobs, rowLevelSecurity } = await withDatabase(invocation, (database) => examine(database, out));
  const checks = Object.entries(CHECKS).map(([invariant, says]) => ({
    invariant,
    says,
    violations: violations.filter((violation) => violation.invariant === invariant).length,
  }));
  const ok = violations.length === 0;
  out.answer({ ok, jobs, checks, violations, rowLevelSecurity }, () => [
    ...textTable(
      ['check', 'result', 'meaning'],
      checks.map((check) => [check.invariant, resultOf(check.violations), check.says]),
    ),
    '',
    ...(rowLevelSecurity ? [] : [NO_SECOND_LOCK, '']),
    ...violations.slice(0, MOST_SHOWN).map(({ invariant, jobId, what }) => `${invariant} job ${jobId}: ${what}`),
    ...(violations.length > MOST_SHOWN ? [`and ${violations.length - MOST_SHOWN} more: --json shows all`] : []),
    ok
      ? out.paint('green', `All is well: ${jobs} ${jobs === 1 ? 'job' : 'jobs'} checked.`)
      : out.paint(
          'red',
          `${violations.length} ${violations.length === 1 ? 'problem' : 'problems'} in ${jobs} ${jobs === 1 ? 'job' : 'jobs'}.`,
        ),
  ]);
  return ok ? EXIT.ok : EXIT.failed;
}

const resultOf = (violations: number): string => (violations === 0 ? 'ok' : `${violations} found`);

type Findings = { violations: Violation[]; jobs: number; rowLevelSecurity: boolean };

async function examine(database: Database, out: Output): Promise<Findings> {
  await checkSchema(database.maintenance);
  const rowLevelSecurity = await prepareReader(database.maintenance);
  let read = 0;
  const violations = await checkInvariants(database.maintenance, ({ jobs, of }) => {
    read = jobs;
    out.progress(of === null ? 'Comparing tables ...' : `Reading histories: ${jobs} of about ${of} jobs ...`);
  });
  out.progress('');
  return { violations, jobs: read, rowLevelSecurity };
}
