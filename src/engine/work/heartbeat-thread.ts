// Runs in a separate thread: a handler that blocks the event loop must not cost other jobs their lease. It beats, and its session holds
// the lock by which others see that this process lives. While the main thread stands still it also ends the attempts that outlive
// their timeout, which the main thread cannot.
import { workerData } from 'node:worker_threads';
import { heartbeat } from '../../ledger/attempts/heartbeat.ts';
import { WorkerSession } from '../../ledger/attempts/worker-session.ts';
import { actForStalled } from './act-for-stalled.ts';
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

const { url, workerId, shared, begun, stallMs } = workerData as HeartbeatThreadData;
const pulse = new Int32Array(shared, 0, PULSE_WORDS);
// Without a session the worker looks dead, so the loop below does not wait for its next beat to open another. A session may end while the
// loop is not waiting, and then nobody hears the notification.
let isSessionLost = false;
const session = new WorkerSession({
  url,
  workerId,
  onLost: () => {
    isSessionLost = true;
    Atomics.notify(pulse, PULSE_STOP);
  },
});

/** While the database cannot be reached. */
const RETRY_MS = 250;
const STALLED_PAUSE_MS = 250;
const LOST_PAUSE_MS = 10;

let mainTicks = -1;
let mainSeenMs = performance.now();

async function beat(): Promise<void> {
  const beganMs = pulseMs();
  isSessionLost = false;
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

// Waiting in shared memory keeps no thread alive: without a connection it would end unheard.
const alive = setInterval(() => {}, 60_000);

while (Atomics.load(pulse, PULSE_STOP) === 0) {
  let pauseMs = Atomics.load(pulse, PULSE_INTERVAL);
  try {
    await beat();
    if (isMainStalled()) {
      pauseMs = Math.min(pauseMs, STALLED_PAUSE_MS);
      await actForStalled({ session, workerId, begun });
    }
    if (isSessionLost) pauseMs = LOST_PAUSE_MS;
  } catch {
    // The database is away. The main thread counts the silence and stops its handlers before their leases end.
    pauseMs = Math.min(pauseMs, RETRY_MS * (0.5 + Math.random()));
  }
  await Atomics.waitAsync(pulse, PULSE_STOP, 0, pauseMs).value;
}
clearInterval(alive);
await session.close();
