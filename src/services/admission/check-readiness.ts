import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import type { Engine } from '../../engine/engine.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';
import { listWorkers, type WorkerInfo } from '../../ledger/attempts/workers.ts';

export type Readiness = {
  readonly ready: boolean;
  readonly ledger: { readonly reachable: boolean; readonly latencyMs: number | null };
  /** The number of live workers of all processes. Null if the ledger is not reachable. */
  readonly workers: number | null;
  readonly reasons: readonly string[];
};

const LEDGER_MS = 1_000;
const SILENT_AFTER_MS = 30_000;

/** Ready means that jobs are accepted and run: the ledger responds in time, and at least one worker is alive. */
export async function checkReadiness(engine: Engine): Promise<Readiness> {
  const startedAtMs = performance.now();
  const listed = listWorkers(engine.database.maintenance).catch(() => null);
  const workers = await raceWithTimeout(listed, LEDGER_MS, () => null);
  if (workers === null) {
    const reasons = ['The database does not respond.'];
    return { ready: false, ledger: { reachable: false, latencyMs: null }, workers: null, reasons };
  }
  const latencyMs = Math.round((performance.now() - startedAtMs) * 10) / 10;
  const isAlive = ({ types, stoppedAt, silentMs }: WorkerInfo) =>
    types.some((type) => type !== DELIVERY_TYPE) && stoppedAt === null && silentMs < SILENT_AFTER_MS;
  const present = workers.filter(isAlive);
  const stalled = present.filter(({ stalledMs }) => stalledMs !== null);
  const alive = present.length - stalled.length;
  const reasons = alive === 0 ? ['No worker is alive. Jobs are accepted, but wait for a worker.'] : [];
  if (stalled.length > 0) reasons.unshift(stalledSentence(stalled));
  return { ready: alive > 0, ledger: { reachable: true, latencyMs }, workers: alive, reasons };
}

/** Anyone may read it, so it names no worker. */
function stalledSentence(stalled: readonly WorkerInfo[]): string {
  const longestMs = Math.max(...stalled.map(({ stalledMs }) => stalledMs ?? 0));
  const [who, verb] = stalled.length === 1 ? ['1 worker', 'does'] : [`${stalled.length} workers`, 'do'];
  return `${who} ${verb} not respond: a handler has blocked the event loop for ${Math.max(1, Math.round(longestMs / 1_000))} s.`;
}
