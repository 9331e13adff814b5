import type { Engine } from '../../engine/engine.ts';
import { listWorkers as listInLedger, type WorkerInfo, workerLoads } from '../../ledger/attempts/workers.ts';

/** `silent`: no heartbeat for 30 seconds. `stalled`: a handler blocks its event loop. */
type WorkerStatus = 'alive' | 'stalled' | 'silent' | 'stopped';

export type ListedWorker = WorkerInfo & { status: WorkerStatus; running: number };

const SILENT_AFTER_MS = 30_000;

/** Returns the workers of all processes, with the number of jobs that each runs. */
export async function listWorkers({ database }: Pick<Engine, 'database'>): Promise<ListedWorker[]> {
  const [workers, loads] = await Promise.all([listInLedger(database.maintenance), workerLoads(database.maintenance)]);
  return workers.map((worker) => ({ ...worker, status: statusOf(worker), running: loads.get(worker.id) ?? 0 }));
}

function statusOf({ stoppedAt, silentMs, stalledMs }: WorkerInfo): WorkerStatus {
  if (stoppedAt !== null) return 'stopped';
  if (silentMs >= SILENT_AFTER_MS) return 'silent';
  return stalledMs === null ? 'alive' : 'stalled';
}
