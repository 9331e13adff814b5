// Runs in a separate thread: a handler that blocks the event loop must not cost other jobs their lease. It beats, and its session holds
// the lock by which others see that this process lives. While the main thread stands still it also ends the attempts that outlive
// their timeout, which the main thread cannot.
import { workerData } from 'node:worker_threads';
import { classify } from '../core/failure.ts';
import { heartbeat } from '../ledger/heartbeat.ts';
import { PolicyCache } from '../ledger/intern-policies.ts';
import { type OwnedJob, ownedJobs } from '../ledger/owned-jobs.ts';
import { returnJobs } from '../ledger/return-jobs.ts';
import { type SettledJob, settleJobs } from '../ledger/settle-jobs.ts';
import { startJobs } from '../ledger/start-jobs.ts';
import { WorkerSession } from '../ledger/worker-session.ts';
import { begunLeasesIn } from './begun-leases.ts';
import {
  type HeartbeatThreadData,
  PULSE_INTERVAL,
  PULSE_LAST_BEAT,
  PULSE_MAIN,
  PULSE_SESSION,
  PULSE_STOP,
  PULSE_WORDS,
  pulseMs,
} from './pulse.ts';
import { settlement } from './settler.ts';

const { url, workerId, shared, begun, stallMs } = workerData as HeartbeatThreadData;
const pulse = new Int32Array(shared, 0, PULSE_WORDS);
// Without a session the worker looks dead, so the loop below does not wait for its next beat to open another.
const session = new WorkerSession({ url, workerId, onLost: () => Atomics.notify(pulse, PULSE_STOP) });
const policies = new PolicyCache(session);

/** While the database cannot be reached. */
const RETRY_MS = 250;
const STALLED_PAUSE_MS = 250;

let mainTicks = -1;
let mainSeenMs = performance.now();

async function beat(): Promise<void> {
  const beganMs = pulseMs();
  const beatMs = Atomics.load(pulse, PULSE_INTERVAL);
  const { alive } = await heartbeat(session, { workerId, jobs: [], beatMs });
  Atomics.store(pulse, PULSE_SESSION, 1);
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

/** Jobs that were leased ahead: those whose handlers run are started, the others are left to other workers. */
async function settleLeasedAhead(owned: readonly OwnedJob[]): Promise<void> {
  const begunLeases = begunLeasesIn(begun);
  const ahead = owned.filter((job) => job.mayRun);
  const running = ahead.filter((job) => begunLeases.has(job.leaseSeq));
  if (running.length > 0) await startJobs(session, { workerId, jobs: running });
  const inLine = ahead.filter((job) => !begunLeases.has(job.leaseSeq));
  if (inLine.length > 0) await returnJobs(session, { workerId, jobs: inLine, closedClaims: [] });
}

/** Ends what ran past its timeout while nobody could end it. */
async function endOverdue(owned: readonly OwnedJob[]): Promise<void> {
  const rows: SettledJob[] = [];
  for (const job of owned) {
    const policy = await policies.policyOf(job.policyId);
    if (job.state !== 'running' || job.runningMs === null || job.runningMs < policy.timeoutMs) continue;
    const failure = classify(new Error('the handler blocked its process past the timeout'), 'timeout');
    rows.push(settlement({ job, policy, outcome: { kind: 'failed', failure }, elapsedMs: 0 }).row);
  }
  if (rows.length > 0) await settleJobs(session, { workerId, jobs: rows, by: 'lease', closedClaims: [] });
}

// Waiting in shared memory keeps no thread alive: without a connection it would end unheard.
const alive = setInterval(() => {}, 60_000);

while (Atomics.load(pulse, PULSE_STOP) === 0) {
  let pauseMs = Atomics.load(pulse, PULSE_INTERVAL);
  try {
    await beat();
    if (isMainStalled()) {
      pauseMs = Math.min(pauseMs, STALLED_PAUSE_MS);
      const owned = await ownedJobs(session, workerId);
      await settleLeasedAhead(owned);
      await endOverdue(owned);
    }
  } catch {
    // The database is away. The main thread counts the silence and stops its handlers before their leases end.
    pauseMs = Math.min(pauseMs, RETRY_MS * (0.5 + Math.random()));
  }
  await Atomics.waitAsync(pulse, PULSE_STOP, 0, pauseMs).value;
}
clearInterval(alive);
await session.close();
