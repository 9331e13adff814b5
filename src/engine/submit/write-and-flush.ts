import type { Queryable } from '../../ledger/driver/statement.ts';
import { flushLog } from '../../ledger/history/flush-log.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { type Attempted, submitShared, submitUnflushed } from '../../ledger/jobs/submit-jobs.ts';

/** The flush apart costs a statement more, which a flood of jobs would feel. */
const FEW = 8;

/**
 * Writes jobs and returns when they are durable. Other processes see a few jobs before they are flushed to disk. `followUp` sends what is to
 * follow the jobs on their connection.
 */
export async function writeAndFlush(
  db: Queryable,
  entries: readonly JobToWrite[],
  followUp: () => void,
): Promise<Attempted[]> {
  if (entries.length > FEW) {
    const writing = submitShared(db, entries);
    followUp();
    return writing;
  }
  const writing = submitUnflushed(db, entries);
  followUp();
  const flushing = flushLog(db);
  // If both fail, what became of the jobs is what the first one says.
  flushing.catch(() => {});
  const written = await writing;
  await flushing;
  return written ?? submitShared(db, entries);
}
