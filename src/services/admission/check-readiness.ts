import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { MAINTENANCE_TYPE } from '../../core/maintenance.ts';
import type { Engine } from '../../engine/engine.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';
import { listWorkers, type WorkerInfo } from '../../ledger/attempts/workers.ts';
import { isDiskFullNow } from '../../ledger/driver/disk-room.ts';
import { msSinceDiskFull } from '../../ledger/driver/statement.ts';

/** The code of both APIs for a server without a worker. */
export const NO_WORKER = 'RFA_EXEC_WORKER_UNAVAILABLE';

type Warning = { readonly code: typeof NO_WORKER | 'WORKER_STALLED'; readonly message: string };

export type Readiness = {
  readonly ready: boolean;
  /** Why the server is not ready; null if it is. */
  readonly code: typeof NO_WORKER | Extract<ErrorCode, 'DATABASE_UNREACHABLE' | 'DATABASE_DISK_FULL'> | null;
  readonly ledger: { readonly reachable: boolean; readonly latencyMs: number | null };
  /** The number of live workers of all processes. Null if the ledger is not reachable. */
  readonly workers: number | null;
  readonly reasons: readonly string[];
  readonly warnings: readonly Warning[];
};

const LEDGER_MS = 1_000;
const SILENT_AFTER_MS = 30_000;

const DISK_FULL = 'The disk of the database is full. Jobs are accepted again once there is room on it.';

/**
 * Ready means that jobs are accepted: the ledger responds in time, and there is room on its disk. A missing worker is a warning, because
 * jobs are accepted and wait for one. With `requiresWorkers` the server is not ready without a worker.
 */
export async function checkReadiness(engine: Pick<Engine, 'database'>, { requiresWorkers = false } = {}): Promise<Readiness> {
  const startedAtMs = performance.now();
  const listed = listWorkers(engine.database.maintenance).catch(() => null);
  const workers = await raceWithTimeout(listed, LEDGER_MS, () => null);
  if (workers === null) return unreachable();
  const latencyMs = Math.round((performance.now() - startedAtMs) * 10) / 10;
  const isFull = await raceWithTimeout(
    isDiskFullNow(engine.database.maintenance).catch(() => null),
    LEDGER_MS,
    () => null,
  );
  if (isFull === null) return unreachable();
  const { alive, warnings } = judgeWorkers(workers);
  const noWorker = requiresWorkers ? warnings.filter(({ code }) => code === NO_WORKER) : [];
  const reasons = [...(isFull ? [DISK_FULL] : []), ...noWorker.map(({ message }) => message)];
  const code = isFull ? 'DATABASE_DISK_FULL' : noWorker.length > 0 ? NO_WORKER : null;
  return { ready: code === null, code, ledger: { reachable: true, latencyMs }, workers: alive, reasons, warnings };
}

/** A server stops if there is no room for its log, and cannot start again until there is. */
function unreachable(): Readiness {
  const wasFull = Number.isFinite(msSinceDiskFull());
  return {
    ready: false,
    code: wasFull ? 'DATABASE_DISK_FULL' : 'DATABASE_UNREACHABLE',
    ledger: { reachable: false, latencyMs: null },
    workers: null,
    reasons: [
      'The database does not respond.',
      ...(wasFull ? ['Its disk was full when it last did. Free space on it, or enlarge it.'] : []),
    ],
    warnings: [],
  };
}

function judgeWorkers(workers: readonly WorkerInfo[]): { alive: number; warnings: Warning[] } {
  const present = workers.filter(isAlive);
  const stalled = present.filter(({ stalledMs }) => stalledMs !== null);
  const alive = present.length - stalled.length;
  const warnings: Warning[] = [];
  if (stalled.length > 0) warnings.push({ code: 'WORKER_STALLED', message: stalledSentence(stalled) });
  if (alive === 0) warnings.push({ code: NO_WORKER, message: 'No worker is alive. Jobs are accepted, but wait for a worker.' });
  return { alive, warnings };
}

/** A worker that only sends webhooks and does maintenance runs no jobs of orgs. */
const OWN_TYPES = [DELIVERY_TYPE, MAINTENANCE_TYPE];

const isAlive = ({ types, stoppedAt, silentMs }: WorkerInfo): boolean =>
  types.some((type) => !OWN_TYPES.includes(type)) && stoppedAt === null && silentMs < SILENT_AFTER_MS;

/** Anyone may read it, so it names no worker. */
function stalledSentence(stalled: readonly WorkerInfo[]): string {
  const longestMs = Math.max(...stalled.map(({ stalledMs }) => stalledMs ?? 0));
  const [who, verb] = stalled.length === 1 ? ['1 worker', 'does'] : [`${stalled.length} workers`, 'do'];
  return `${who} ${verb} not respond: a handler has blocked the event loop for ${Math.max(1, Math.round(longestMs / 1_000))} s.`;
}
