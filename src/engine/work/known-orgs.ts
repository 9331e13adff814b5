import { PermanentError } from '../../core/failure.ts';
import { findStandingOrgs } from '../../ledger/access/standing-orgs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import type { EventHub } from '../events.ts';

type OwnedJob = { readonly orgId: string };

export type KnownOrgsOptions = {
  database: Pick<Database, 'workers'>;
  events: EventHub;
  /** The orgs that are being deleted, at most a second old. */
  deleting(): ReadonlySet<string>;
};

/** How long an org that was found counts as existing. An org that is being deleted is noticed sooner. */
const KNOWN_MS = 60_000;
/** More orgs cost statements, not memory. */
const MAX_KNOWN = 10_000;
const RETRY_MS = 500;

/**
 * The orgs whose jobs may run. A worker asks before it runs a job of an org that it has not seen within the last minute: one statement for
 * all new orgs of a claim.
 */
export class KnownOrgs {
  readonly #options: KnownOrgsOptions;
  readonly #knownUntilMs = new Map<string, number>();

  constructor(options: KnownOrgsOptions) {
    this.#options = options;
  }

  /** Asks the ledger about orgs that are not known. Retries until the database responds, because no other worker can run the jobs. */
  async learn(jobs: readonly OwnedJob[], isStopped: () => boolean): Promise<void> {
    const asked = this.#unknown(jobs);
    while (asked.length > 0 && !isStopped()) {
      try {
        const found = await findStandingOrgs(this.#options.database.workers, asked);
        if (this.#knownUntilMs.size + found.size > MAX_KNOWN) this.#knownUntilMs.clear();
        for (const orgId of found) this.#knownUntilMs.set(orgId, performance.now() + KNOWN_MS);
        return;
      } catch (error) {
        this.#options.events.emit('error', { error, where: 'worker' });
        if (!isPassing(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_MS));
      }
    }
  }

  knowsAll(jobs: readonly OwnedJob[]): boolean {
    return jobs.every(({ orgId }) => this.#isKnown(orgId));
  }

  /** The error of jobs that must not run. Null for an org that exists. Call it after `learn`. */
  refusalOf(orgId: string): Error | null {
    if (this.#options.deleting().has(orgId)) {
      const message = `The org ${orgId} is being deleted, so its jobs do not run.`;
      return new PermanentError(message, { code: 'ORG_DELETED' });
    }
    if (this.#isKnown(orgId)) return null;
    return new PermanentError(`The org ${orgId} does not exist, so its jobs do not run.`, { code: 'ORG_NOT_FOUND' });
  }

  #unknown(jobs: readonly OwnedJob[]): string[] {
    return [...new Set(jobs.map(({ orgId }) => orgId))].filter((orgId) => !this.#isKnown(orgId));
  }

  #isKnown(orgId: string): boolean {
    return performance.now() < (this.#knownUntilMs.get(orgId) ?? 0);
  }
}
