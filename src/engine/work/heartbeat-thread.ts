// Runs in a separate thread, so that a handler that blocks the event loop does not cost other jobs their lease. The thread sends beats, and
// its session holds the lock that shows other processes that this one lives. While the main thread is blocked, it also ends attempts that
// outlive their timeout.
import { workerData } from 'node:worker_threads';
import { heartbeat } from '../../ledger/attempts/heartbeat.ts';
import { WorkerSession } from '../../ledger/attempts/worker-session.ts';
import { actForStalled } from './act-for-stalled.ts';
import { type HeartbeatThreadData, sharedClockMs, WORD } from './thread-memory.ts';

const { url, workerId, words: shared, lateStartLeases, stallMs } = workerData as HeartbeatThreadData;
const words = new Int32Array(shared);
// Without a session the worker looks dead, so the loop below opens another one before its next beat is due. A session may end while the
// loop is not waiting, so a notification alone could be missed.
let isSessionLost = false;
const session = new WorkerSession({
  url,
  workerId,
  onLost: () => {
    isSessionLost = true;
    Atomics.notify(words, WORD.stop);
  },
});

/** Between two tries while the database cannot be reached. */
const RETRY_MS = 250;
const STALLED_PAUSE_MS = 250;
const LOST_PAUSE_MS = 10;

let mainTicks = -1;
let mainSeenMs = performance.now();

async function beat(): Promise<void> {
  const beganMs = sharedClockMs();
  isSessionLost = false;
  const beatMs = Atomics.load(words, WORD.intervalMs);
  const { alive } = await heartbeat(session, { workerId, jobs: [], beatMs });
  Atomics.store(words, WORD.hasSession, 1);
  if (alive) Atomics.store(words, WORD.lastBeatMs, beganMs);
}

function isMainStalled(): boolean {
  const ticks = Atomics.load(words, WORD.mainTicks);
  if (ticks !== mainTicks) {
    mainTicks = ticks;
    mainSeenMs = performance.now();
  }
  return performance.now() - mainSeenMs > stallMs;
}

// Waiting on shared memory does not keep a thread alive. Without a connection, it would end silently.
const alive = setInterval(() => {}, 60_000);

while (Atomics.load(words, WORD.stop) === 0) {
  let pauseMs = Atomics.load(words, WORD.intervalMs);
  try {
    await beat();
    if (isMainStalled()) {
      pauseMs = Math.min(pauseMs, STALLED_PAUSE_MS);
      await actForStalled({ session, workerId, lateStartLeases });
    }
    if (isSessionLost) pauseMs = LOST_PAUSE_MS;
  } catch {
    // The database is down. The main thread measures the silence and stops its handlers before their leases expire.
    pauseMs = Math.min(pauseMs, RETRY_MS * (0.5 + Math.random()));
  }
  await Atomics.waitAsync(words, WORD.stop, 0, pauseMs).value;
}
clearInterval(alive);
await session.close();
