// A thread of its own, so that a handler that blocks the event loop costs no neighbour its lease. It beats; and while the
// main thread stands still it also ends the attempts that outlive their timeout, which the main thread cannot.
import { workerData } from 'node:worker_threads';
import { classify } from '../core/failure.ts';
import { openDatabase } from '../ledger/database.ts';
import { heartbeat } from '../ledger/heartbeat.ts';
import { PolicyCache } from '../ledger/intern-policies.ts';
import { ownedJobs } from '../ledger/owned-jobs.ts';
import { type SettledJob, settleJobs } from '../ledger/settle-jobs.ts';
import {
  type HeartbeatThreadData,
  PULSE_INTERVAL,
  PULSE_LAST_BEAT,
  PULSE_MAIN,
  PULSE_STOP,
  PULSE_WORDS,
  pulseMs,
} from './pulse.ts';
import { settlement } from './settler.ts';

const { url, workerId, shared, stallMs } = workerData as HeartbeatThreadData;
const pulse = new Int32Array(shared, 0, PULSE_WORDS);
const database = openDatabase({ url, apiPool: 1, workerPool: 1 });
const policies = new PolicyCache(database.workers);

let mainTicks = -1;
let mainSeenMs = performance.now();

async function beat(): Promise<void> {
  const beganMs = pulseMs();
  const { alive } = await heartbeat(database.workers, { workerId, jobs: [] });
  if (alive) Atomics.store(pulse, PULSE_LAST_BEAT, beganMs);
}

function isMainStalled(): boolean {
  const ticks = Atomics.load(pulse, PULSE_MAIN);
  if (ticks !== mainTicks) {
    mainTicks = ticks;
    mainSeenMs = performance.now();
  }
  return performance.now() - mainSeenMs > stallMs;
}

/** Ends what ran past its timeout while nobody could end it. */
async function endOverdue(): Promise<void> {
  const rows: SettledJob[] = [];
  for (const job of await ownedJobs(database.workers, workerId)) {
    const policy = await policies.policyOf(job.policyId);
    if (job.state !== 'running' || job.runningMs === null || job.runningMs < policy.timeoutMs) continue;
    const failure = classify(new Error('the handler blocked its process past the timeout'), 'timeout');
    rows.push(settlement({ job, policy, outcome: { kind: 'failed', failure }, elapsedMs: 0 }).row);
  }
  if (rows.length > 0) await settleJobs(database.workers, { workerId, jobs: rows, by: 'lease', closedClaims: [] });
}

// Waiting in shared memory keeps no thread alive: without a connection it would end unheard.
const alive = setInterval(() => {}, 60_000);

while (Atomics.load(pulse, PULSE_STOP) === 0) {
  try {
    await beat();
    if (isMainStalled()) await endOverdue();
  } catch {
    // The database is away. The main thread counts the silence and stops its handlers before their leases end.
  }
  const intervalMs = Math.min(Atomics.load(pulse, PULSE_INTERVAL), isMainStalled() ? 250 : Number.POSITIVE_INFINITY);
  await Atomics.waitAsync(pulse, PULSE_STOP, 0, intervalMs).value;
}
clearInterval(alive);
await database.close();
