import type { OrphansWorker } from '../../ledger/attempts/find-orphans.ts';
import type { WatchedWorker } from '../../ledger/attempts/watch-workers.ts';

/** How long a worker whose session ended has to reconnect or to send a beat. */
export const GRACE_MS = 2_000;
/** After an outage all workers reconnect at the same time, and some must first wait for a connection attempt to time out. */
const GRACE_AFTER_OUTAGE_MS = 10_000;
/** A longer pause between two looks may hide an outage. */
const MAX_PAUSE_MS = 5_000;
/** A worker that missed this many beats is not just late. */
const MISSED_BEATS = 3;
/** For a worker that has been silent for a day on the database's clock. */
const LONG_GONE_MS = 60_000;

type Sighting = {
  worker: WatchedWorker;
  /** When its newest beat was first seen. */
  beatSinceMs: number;
  /** When its lock was first seen free; null while its session holds it. */
  freeSinceMs: number | null;
};

/**
 * What this process has seen of the workers, on its own monotonic clock. The clock of the database may be set while
 * workers are alive, so it alone never ends a lease.
 */
export class WorkerWatch {
  #sightings = new Map<number, Sighting>();
  #lookedMs = 0;
  #hadOutage = false;
  /** Locks that become free before this time get the longer grace. */
  #outageOverMs = 0;

  /** A look failed. Workers could not send beats either, so earlier sightings do not count. */
  restart(): void {
    this.#sightings.clear();
    this.#hadOutage = true;
  }

  observe(workers: readonly WatchedWorker[], nowMs: number): void {
    if (this.#sightings.size > 0 && nowMs - this.#lookedMs > MAX_PAUSE_MS) this.restart();
    if (this.#hadOutage) this.#outageOverMs = nowMs + GRACE_AFTER_OUTAGE_MS;
    this.#hadOutage = false;
    this.#lookedMs = nowMs;
    const before = this.#sightings;
    this.#sightings = new Map(workers.map((worker) => [worker.id, sightingOf(worker, before.get(worker.id), nowMs)]));
  }

  /** The workers whose process has ended, as far as this process can tell. */
  dead(): WatchedWorker[] {
    return [...this.#sightings.values()].filter((each) => this.#isDead(each)).map(({ worker }) => worker);
  }

  /** Whether the worker of an orphan has been silent long enough on the clock of this process, too. */
  confirms(workerId: number, worker: OrphansWorker, leaseMs: number): boolean {
    if (worker.kind !== 'silent') return true;
    const sighting = this.#sightings.get(workerId);
    if (sighting === undefined || sighting.worker.beat !== worker.beat) return false;
    // A beat in the future was written before the clock was set back. So only the clock of this process counts.
    const neededMs = worker.isBeatAhead ? leaseMs : Math.min(leaseMs, MISSED_BEATS * worker.beatMs);
    return this.#lookedMs - sighting.beatSinceMs >= neededMs;
  }

  #isDead({ worker, beatSinceMs, freeSinceMs }: Sighting): boolean {
    if (worker.isLongGone && this.#lookedMs - beatSinceMs >= LONG_GONE_MS) return true;
    if (freeSinceMs === null) return false;
    const graceMs = freeSinceMs < this.#outageOverMs ? GRACE_AFTER_OUTAGE_MS : GRACE_MS;
    return this.#lookedMs - Math.max(freeSinceMs, beatSinceMs) >= graceMs;
  }
}

function sightingOf(worker: WatchedWorker, before: Sighting | undefined, nowMs: number): Sighting {
  const isSameBeat = before?.worker.beat === worker.beat;
  return {
    worker,
    beatSinceMs: isSameBeat ? before.beatSinceMs : nowMs,
    freeSinceMs: worker.isLockFree ? (before?.freeSinceMs ?? nowMs) : null,
  };
}
