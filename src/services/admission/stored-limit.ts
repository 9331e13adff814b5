import { AppError } from '../../core/errors.ts';
import { SharedUse } from '../../core/fair-share.ts';
import { lengthOfEntry } from '../../engine/submit/job-writer.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { ROW_BYTES, sampleStoredBytes } from '../../ledger/queues/stored-bytes.ts';

export type StoredLimitOptions = {
  /** What the jobs of all orgs may take in the database. */
  storedBytes: number;
  /** The part of it that one org may use while it is alone. */
  orgShare: number;
};

/** How long a sample is used, and how long it counts as fresh when it would refuse a job. */
const SAMPLE_MS = 10_000;
const FRESH_MS = 1_000;
/** A slow sample is repeated less often, so that sampling costs the database at most a twentieth of a core. */
const PAUSE_PER_SAMPLE = 20;
const RETRY_AFTER_MS = 60_000;
const MEBIBYTE = 1_048_576;

/** What a new job takes in the database, before it is compressed. */
export const bytesOf = (entry: JobToWrite): number => ROW_BYTES + lengthOfEntry(entry);

/**
 * Limits the bytes that an org stores: payloads, results and rows, of waiting and of finished jobs, and artifacts. No counter is kept in the
 * database. A process samples the table from time to time, and adds what it admits in between.
 */
export class StoredLimit {
  readonly #database: Database;
  readonly #stored: SharedUse;
  #sampledAtMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #sampling: Promise<void> | null = null;

  constructor(database: Database, { storedBytes, orgShare }: StoredLimitOptions) {
    this.#database = database;
    this.#stored = new SharedUse({ limit: storedBytes, part: orgShare });
  }

  /** Counts the bytes and returns null, or returns the error for an org that has used its share. */
  take({ orgId, bytes }: { orgId: string; bytes: number }): AppError | null | Promise<AppError | null> {
    if (this.#ageMs() >= SAMPLE_MS) this.#sample().catch(() => {});
    if (this.#stored.room(orgId) >= bytes) return this.#add(orgId, bytes);
    if (this.#ageMs() < FRESH_MS) return this.#overShare(orgId);
    // Values are compressed when they are stored, and old jobs are deleted, so a new sample may show more room.
    return this.#sample().then(() => (this.#stored.room(orgId) >= bytes ? this.#add(orgId, bytes) : this.#overShare(orgId)));
  }

  #ageMs(): number {
    return performance.now() - this.#sampledAtMs - this.#tookMs * PAUSE_PER_SAMPLE;
  }

  #add(orgId: string, bytes: number): null {
    this.#stored.add(orgId, bytes);
    return null;
  }

  #sample(): Promise<void> {
    this.#sampling ??= this.#look().finally(() => {
      this.#sampling = null;
    });
    return this.#sampling;
  }

  async #look(): Promise<void> {
    const askedAtMs = performance.now();
    try {
      this.#stored.replace(await sampleStoredBytes(this.#database.maintenance));
    } finally {
      // A sample that failed is not repeated at once: the last one is used longer.
      this.#sampledAtMs = performance.now();
      this.#tookMs = this.#sampledAtMs - askedAtMs;
    }
  }

  #overShare(orgId: string): AppError {
    const [current, maximum] = [this.#stored.own(orgId), this.#stored.share(orgId)].map((bytes) => Math.round(bytes));
    const [used, share] = [current, maximum].map((bytes) => Math.round((bytes as number) / MEBIBYTE));
    return new AppError('QUOTA_EXCEEDED', {
      message: `The jobs and artifacts of the org take ${used} MB, and its share of the storage is ${share} MB (limits.stored_size, limits.org_share). Wait until finished jobs and artifacts are deleted after their retention, or store less.`,
      quota: { limit: 'org_stored_bytes', current: current as number, maximum: maximum as number, retryAfterMs: RETRY_AFTER_MS },
    });
  }
}
