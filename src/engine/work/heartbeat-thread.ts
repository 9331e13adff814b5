// Runs in a separate thread, so that a handler that blocks the event loop does not cost other jobs their lease. The thread sends beats, and
// its session holds the lock that shows other processes that this one lives. While the main thread is blocked, it also ends attempts that
// outlive their timeout, and finally the process.
import { workerData } from 'node:worker_threads';
import { heartbeat } from '../../ledger/attempts/heartbeat.ts';
import { WorkerSession } from '../../ledger/attempts/worker-session.ts';
import { actForStalled } from './act-for-stalled.ts';
import { GiveUp } from './give-up.ts';
import { StallWatch } from './stall-watch.ts';
import { type HeartbeatThreadData, sharedClockMs, WORD } from './thread-memory.ts';

const { url, workerId, words: shared, lateStartLeases, processMemory, mayEndProcess } = workerData as HeartbeatThreadData;
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
/** How often the thread looks at the main thread between two beats. */
const LOOK_MS = 1_000;

const watch = new StallWatch();
const mayEnd = () => mayEndProcess && Atomics.load(words, WORD.isDebugged) === 0;
const giveUp = new GiveUp({ session, workerId, watch, processMemory, mayEnd });

async function beat(): Promise<void> {
  const beganMs = sharedClockMs();
  isSessionLost = false;
  const beatMs = Atomics.load(words, WORD.intervalMs);
  const { alive } = await heartbeat(session, { workerId, jobs: [], beatMs, stalledMs: watch.stalledMs });
  Atomics.store(words, WORD.hasSession, 1);
  if (alive) Atomics.store(words, WORD.lastBeatMs, beganMs);
}

const isMainStalled = (): boolean => watch.look(Atomics.load(words, WORD.mainTickMs));

/** Ends early if the main thread asks for it, or if it has just become blocked. */
async function pause(ms: number, wasStalled: boolean): Promise<void> {
  const untilMs = performance.now() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = untilMs - performance.now()) {
    if ((await Atomics.waitAsync(words, WORD.stop, 0, Math.min(leftMs, LOOK_MS)).value) !== 'timed-out') return;
    if (isMainStalled() && !wasStalled) return;
  }
}

// Waiting on shared memory does not keep a thread alive. Without a connection, it would end silently.
const alive = setInterval(() => {}, 60_000);

while (Atomics.load(words, WORD.stop) === 0) {
  let pauseMs = Atomics.load(words, WORD.intervalMs);
  const isStalled = isMainStalled();
  try {
    await beat();
    if (isStalled) giveUp.note(await actForStalled({ session, workerId, lateStartLeases }));
    if (isSessionLost) pauseMs = LOST_PAUSE_MS;
  } catch {
    // The database is down. The main thread measures the silence and stops its handlers before their leases expire.
    pauseMs = Math.min(pauseMs, RETRY_MS * (0.5 + Math.random()));
  }
  if (isStalled) pauseMs = Math.min(pauseMs, STALLED_PAUSE_MS);
  // The statements above may have taken long.
  if (!isMainStalled()) giveUp.withdraw();
  else await giveUp.proceed().catch(() => {});
  await pause(pauseMs, isStalled);
}
clearInterval(alive);
await session.close();
