import type { Claimed } from '../../ledger/attempts/claim-and-start.ts';
import type { ClaimStatement } from './claim-statements.ts';
import type { Producer } from './producer.ts';
import type { ServedJob } from './producer-options.ts';

/** The producers of this process. The submitter looks for an idle one, so that a lone job starts without a separate claim. */
export class Producers {
  readonly #all = new Set<Producer>();

  add(producer: Producer): void {
    this.#all.add(producer);
  }

  remove(producer: Producer): void {
    this.#all.delete(producer);
  }

  /** Sends a statement as the claim of an idle producer that serves the job. Returns null, without sending it, if none is idle. */
  claimWith(job: ServedJob, claim: ClaimStatement): Promise<Claimed> | null {
    for (const producer of this.#all) {
      const claiming = producer.serves(job) ? producer.claimWith(claim) : null;
      if (claiming !== null) return claiming;
    }
    return null;
  }
}
