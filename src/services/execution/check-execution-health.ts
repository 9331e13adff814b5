import { AppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';
import { listWorkers, type WorkerInfo } from '../../ledger/attempts/workers.ts';
import { NO_WORKER } from '../admission/check-readiness.ts';
import type { ExecutionContext } from './context.ts';

const LEDGER_MS = 1_000;
const SILENT_AFTER_MS = 30_000;
const RETRY_AFTER_MS = 1_000;

/** Whether a job could run now: the database responds in time, and a worker for these jobs is alive. */
export async function checkExecutionHealth({ engine }: Pick<ExecutionContext, 'engine'>): Promise<{ workers: number; latencyMs: number }> {
  const startedAtMs = performance.now();
  const known = await raceWithTimeout(listWorkers(engine.database.maintenance), LEDGER_MS, late);
  const workers = known.filter(isAlive).length;
  if (workers > 0) return { workers, latencyMs: Math.round((performance.now() - startedAtMs) * 10) / 10 };
  throw new AppError('UNAVAILABLE', {
    message: 'No worker is running: jobs are accepted and stay queued.',
    problem: NO_WORKER,
    retryAfterMs: RETRY_AFTER_MS,
  });
}

const isAlive = ({ types, stoppedAt, silentMs }: WorkerInfo): boolean =>
  types.includes(EXECUTION_TYPE) && stoppedAt === null && silentMs < SILENT_AFTER_MS;

function late(): never {
  throw new AppError('TIMED_OUT', {
    message: `The database did not respond within ${LEDGER_MS} ms.`,
    problem: 'RFA_DEPENDENCY_TIMEOUT',
    retryAfterMs: RETRY_AFTER_MS,
  });
}
