import { expect, it } from 'vitest';
import { GiveUp } from '../../src/engine/work/give-up.ts';
import { StallWatch } from '../../src/engine/work/stall-watch.ts';
import { PLACE, sharedClockMs } from '../../src/engine/work/thread-memory.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
const OVERDUE = [{ jobId: 'a', jobType: 'near', leaseSeq: 7, timeoutMs: 1_000 }];
const HOUR_MS = 3_600_000;

const newProcess = () => new SharedArrayBuffer(Object.keys(PLACE).length * Float64Array.BYTES_PER_ELEMENT);

/** A heartbeat thread, on a clock that the test moves. The event loop of its process stopped ten seconds ago. */
class BlockedThread {
  readonly giveUp: GiveUp;
  readonly #watch = new StallWatch();
  readonly #tickMs = sharedClockMs() - 10_000;
  readonly #workerId: number;
  #nowMs = 0;

  constructor(workerId: number, processMemory: SharedArrayBuffer) {
    this.#workerId = workerId;
    this.giveUp = new GiveUp({ session: ledger.db.workers, workerId, watch: this.#watch, processMemory, mayEnd: () => false });
  }

  static async of(processMemory = newProcess()): Promise<BlockedThread> {
    return new BlockedThread(await ledger.registerWorker('w'), processMemory);
  }

  async look({ afterMs = 250, times = 1 } = {}): Promise<void> {
    for (let time = 0; time < times; time++) {
      this.#nowMs += afterMs;
      this.#watch.look(this.#tickMs, this.#nowMs);
      await this.giveUp.proceed();
    }
  }

  async isStopped(): Promise<boolean> {
    const { rows } = await ledger.db.api.query('SELECT stopped_at FROM millrace.workers WHERE id = $1', [this.#workerId]);
    return rows[0].stopped_at !== null;
  }
}

it('a worker is stopped once an attempt is overdue and the event loop stays blocked', async () => {
  const thread = await BlockedThread.of();
  await thread.look({ times: 20 });
  expect(await thread.isStopped()).toBe(false);
  thread.giveUp.note(OVERDUE);
  await thread.look({ times: 3 });
  expect(await thread.isStopped()).toBe(false);
  await thread.look();
  expect(await thread.isStopped()).toBe(true);
});

it('an event loop that runs again keeps its worker', async () => {
  const thread = await BlockedThread.of();
  thread.giveUp.note(OVERDUE);
  await thread.look({ times: 3 });
  thread.giveUp.withdraw();
  await thread.look({ times: 20 });
  expect(await thread.isStopped()).toBe(false);
});

it('a handler that blocks within its own timeout keeps its process, even if a neighbour has a shorter one', async () => {
  const memory = newProcess();
  const places = new Float64Array(memory);
  [places[PLACE.calledLease], places[PLACE.calledLimitMs]] = [99, HOUR_MS];
  const thread = await BlockedThread.of(memory);
  thread.giveUp.note(OVERDUE);
  await thread.look({ times: 20 });
  expect(await thread.isStopped()).toBe(false);
  places[PLACE.calledLimitMs] = 9_000;
  await thread.look();
  expect(await thread.isStopped()).toBe(true);
});

it('all workers of a process are stopped together, but not those of another', async () => {
  const memory = newProcess();
  const [one, other, elsewhere] = [await BlockedThread.of(memory), await BlockedThread.of(memory), await BlockedThread.of()];
  one.giveUp.note(OVERDUE);
  for (const thread of [one, other, elsewhere]) await thread.look({ times: 5 });
  expect([await one.isStopped(), await other.isStopped(), await elsewhere.isStopped()]).toEqual([true, true, false]);
});

it('of the time for which a whole process was frozen, at most a second counts', () => {
  const watch = new StallWatch();
  const tickMs = sharedClockMs() - 10_000;
  watch.look(tickMs, 0);
  watch.look(tickMs, HOUR_MS);
  expect(watch.witnessedMs).toBe(1_000);
  watch.look(sharedClockMs(), HOUR_MS + 250);
  expect(watch.witnessedMs).toBe(0);
  expect(watch.stalledMs).toBe(undefined);
});
