import { AppError } from '../../core/errors.ts';
import { type Policy, PROFILES } from '../../core/policy.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { EventHub } from '../events.ts';
import type { RegisteredHandler } from './registry.ts';

const RETRY_MS = 500;

/** Retries until the database responds, because no other worker can run the job. Returns an error that will not pass. */
export async function loadPolicy(
  policies: PolicyCache,
  policyId: number,
  { events, isStopped }: { events: EventHub; isStopped(): boolean },
): Promise<Policy | Error> {
  for (;;) {
    try {
      return await policies.policyOf(policyId);
    } catch (error) {
      events.emit('error', { error, where: 'worker' });
      if (!isPassing(error) || isStopped()) return error as Error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_MS));
    }
  }
}

/** Decides the outcome of a job whose policy cannot be read. */
const FALLBACK_POLICY: Policy = PROFILES.gopherqueue;

/**
 * Returns the policy and the handler of a claimed job. A job that cannot run gets a handler that fails with the reason, so that its
 * attempt ends like any other and the history shows why.
 */
export function runnableOf(
  type: string,
  { policy, registered }: { policy: Policy | Error; registered: RegisteredHandler | undefined },
): { policy: Policy; registered: RegisteredHandler } {
  if (policy instanceof Error) return { policy: FALLBACK_POLICY, registered: failing(type, policy) };
  const message = `Claimed a job of type ${type}, but this process has no handler for it.`;
  return { policy, registered: registered ?? failing(type, new AppError('UNKNOWN_TYPE', { message })) };
}

const failing = (type: string, error: Error): RegisteredHandler => ({
  type,
  handler: () => Promise.reject(error),
  layer: { hasCustomBackoff: false },
  concurrency: null,
  customBackoff: undefined,
  schema: undefined,
  fanIn: null,
  cancelsCooperatively: false,
  orgs: null,
});
