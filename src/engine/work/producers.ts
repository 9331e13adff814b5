import type { Taken } from '../../ledger/attempts/take-jobs.ts';
import type { Producer, ServedJob } from './producer.ts';
import type { Take } from './taking.ts';

/** The producers of this process. The submitter looks here for one that is idle, so that a lone job need not wait for a claim. */
export class Producers {
  readonly #all = new Set<Producer>();

  add(producer: Producer): void {
    this.#all.add(producer);
  }

  remove(producer: Producer): void {
    this.#all.delete(producer);
  }

  /** Sends a statement as the claim of an idle producer that serves the job. Null: no producer is idle, and nothing was sent. */
  claimWith(job: ServedJob, take: Take): Promise<Taken> | null {
    for (const producer of this.#all) {
      const taking = producer.serves(job) ? producer.claimWith(take) : null;
      if (taking !== null) return taking;
    }
    return null;
  }
}
