import type { Policy } from '../../core/policy.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';

const RETRY_MS = 500;

type AskOptions = { onError(error: unknown): void; isStopped(): boolean };

/** Asked for until the database answers: the job is ours, and nobody else knows of it. An error: there is none to be had. */
export async function askPolicy(
  policies: PolicyCache,
  policyId: number,
  { onError, isStopped }: AskOptions,
): Promise<Policy | Error> {
  for (;;) {
    try {
      return await policies.policyOf(policyId);
    } catch (error) {
      onError(error);
      if (!isPassing(error) || isStopped()) return error as Error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_MS));
    }
  }
}
