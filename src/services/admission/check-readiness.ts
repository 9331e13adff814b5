import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import type { Engine } from '../../engine/engine.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';
import { listWorkers, type WorkerInfo } from '../../ledger/attempts/workers.ts';

export type Readiness = {
  readonly ready: boolean;
  readonly ledger: { readonly reachable: boolean; readonly latencyMs: number | null };
  /** Workers of any process that run jobs and were heard of lately; null when the ledger cannot be asked. */
  readonly workers: number | null;
  readonly reasons: readonly string[];
};

const LEDGER_MS = 1_000;
const SILENT_AFTER_MS = 30_000;

/** Whether work can be accepted and would be done: the ledger answers in time, and some worker is alive. */
export async function checkReadiness(engine: Engine): Promise<Readiness> {
  const startedAtMs = performance.now();
  const listed = listWorkers(engine.database.maintenance).catch(() => null);
  const workers = await raceWithTimeout(listed, LEDGER_MS, () => null);
  if (workers === null) {
    const reasons = ['The database does not answer.'];
    return { ready: false, ledger: { reachable: false, latencyMs: null }, workers: null, reasons };
  }
  const latencyMs = Math.round((performance.now() - startedAtMs) * 10) / 10;
  const isAlive = ({ types, stoppedAt, silentMs }: WorkerInfo) =>
    types.some((type) => type !== DELIVERY_TYPE) && stoppedAt === null && silentMs < SILENT_AFTER_MS;
  const alive = workers.filter(isAlive).length;
  const reasons = alive === 0 ? ['No worker is alive: jobs are accepted and wait.'] : [];
  return { ready: alive > 0, ledger: { reachable: true, latencyMs }, workers: alive, reasons };
}
