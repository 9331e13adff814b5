import { type Amounts, type SharedLimit, SharedUse } from '../../core/fair-share.ts';

/**
 * How many jobs wait, of all orgs and of each: the last count, and the jobs that were added since. A count may miss jobs that are being
 * written while it is taken. They are added to its result, so that an org gets no room twice.
 */
export class CountedJobs {
  readonly use: SharedUse;
  /** The jobs that are being written. */
  readonly #open = new Map<string, number>();
  /** The jobs that the count in flight may miss. */
  #missed: Map<string, number> | null = null;

  constructor(limit: SharedLimit) {
    this.use = new SharedUse(limit);
  }

  add(orgId: string, jobs: number): void {
    this.use.add(orgId, jobs);
    if (this.#missed !== null) increase(this.#missed, orgId, jobs);
  }

  /** Adds jobs whose write ends with the promise. */
  addUntil<T>(orgId: string, jobs: number, write: () => Promise<T>): Promise<T> {
    this.add(orgId, jobs);
    increase(this.#open, orgId, jobs);
    const end = () => increase(this.#open, orgId, -jobs);
    return write().then(
      (value) => {
        end();
        return value;
      },
      (error) => {
        end();
        throw error;
      },
    );
  }

  /** One count at a time. */
  async count(read: () => Promise<Amounts>): Promise<void> {
    const missed = new Map(this.#open);
    this.#missed = missed;
    try {
      this.use.replace(await read());
      for (const [orgId, jobs] of missed) this.use.add(orgId, jobs);
    } finally {
      this.#missed = null;
    }
  }
}

function increase(amounts: Map<string, number>, orgId: string, jobs: number): void {
  const amount = (amounts.get(orgId) ?? 0) + jobs;
  if (amount === 0) amounts.delete(orgId);
  else amounts.set(orgId, amount);
}
