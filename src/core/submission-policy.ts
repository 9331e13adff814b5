import { BACKOFF_STRATEGIES, type BackoffPolicy } from './backoff.ts';
import type { Issues } from './issues.ts';
import { refuseUnknown } from './known-members.ts';
import type { JobLimit } from './limit.ts';
import { type Policy, type PolicyLayer, type ResolveParams, resolvePolicy } from './policy.ts';
import { readDuration, readWord } from './submission-fields.ts';

/** The policy of a registered job type. CUSTOM backoff needs a function that a worker supplies. */
export type RegistrationPolicy = PolicyLayer & { readonly hasCustomBackoff?: boolean; readonly limit?: JobLimit };

interface RequestedPolicy {
  readonly timeout?: unknown;
  readonly lifetime?: unknown;
  readonly maxAttempts?: unknown;
  readonly backoff?: unknown;
}

const BACKOFF_MEMBERS = ['strategy', 'initialDelay', 'maxDelay', 'multiplier', 'jitter'] as const;

/** The policy layer of a submission, or undefined when the submission sets none of its members. */
export function readPolicyLayer(requested: RequestedPolicy, issues: Issues): PolicyLayer | undefined {
  const { timeout, lifetime, maxAttempts, backoff } = requested;
  if (timeout == null && lifetime == null && maxAttempts == null && backoff == null) return undefined;
  return {
    timeoutMs: timeout == null ? undefined : (readDuration(timeout, 'timeout', issues) ?? undefined),
    lifetimeMs: lifetime == null ? undefined : (readDuration(lifetime, 'lifetime', issues) ?? undefined),
    // resolvePolicy refuses anything but an integer in range.
    maxAttempts: maxAttempts == null ? undefined : (maxAttempts as number),
    backoff: backoff == null ? undefined : readBackoff(backoff, issues),
  };
}

function readBackoff(value: unknown, issues: Issues): Partial<BackoffPolicy> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    issues.add('backoff', 'INVALID_TYPE', 'must be an object');
    return undefined;
  }
  refuseUnknown(value, BACKOFF_MEMBERS, issues, 'backoff.');
  const { strategy, initialDelay, maxDelay, multiplier, jitter } = value as Record<string, unknown>;
  if (multiplier != null && typeof multiplier !== 'number') {
    issues.add('backoff.multiplier', 'INVALID_TYPE', 'must be a number');
  }
  if (jitter != null && typeof jitter !== 'boolean') issues.add('backoff.jitter', 'INVALID_TYPE', 'must be true or false');
  const delay = (given: unknown, field: string) => (given == null ? undefined : (readDuration(given, field, issues) ?? undefined));
  return {
    strategy:
      strategy == null ? undefined : (readWord(strategy, { field: 'backoff.strategy', words: BACKOFF_STRATEGIES }, issues) ?? undefined),
    initialDelayMs: delay(initialDelay, 'backoff.initialDelay'),
    maxDelayMs: delay(maxDelay, 'backoff.maxDelay'),
    multiplier: typeof multiplier === 'number' ? multiplier : undefined,
    jitter: typeof jitter === 'boolean' ? jitter : undefined,
  };
}

type JobPolicyParams = ResolveParams & { readonly registration?: RegistrationPolicy };

/** Resolves the job's policy. Adds issues and returns null when it is not valid. */
export function resolveForJob(params: JobPolicyParams, issues: Issues): Policy | null {
  const resolved = resolvePolicy(params);
  if (!resolved.ok) {
    issues.include(...resolved.issues);
    return null;
  }
  if (resolved.policy.backoff.strategy === 'CUSTOM' && !hasFunction(params)) {
    issues.add(
      'backoff.strategy',
      'CUSTOM_BACKOFF_UNKNOWN',
      'cannot be CUSTOM: no live worker of this job type supplies a backoff function',
    );
  }
  return resolved.policy;
}

/** A job that does not choose a strategy keeps the CUSTOM backoff of its type, even while no worker is live. */
function hasFunction({ submission, registration }: JobPolicyParams): boolean {
  if (registration?.hasCustomBackoff === true) return true;
  return submission?.backoff?.strategy === undefined && registration?.backoff?.strategy === 'CUSTOM';
}
