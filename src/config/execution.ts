import { AppError, type Issue } from '../core/errors.ts';
import type { ExecutionType } from '../core/execution/kinds.ts';
import type { ExecutionSettings } from '../core/execution/settings.ts';
import { type Policy, PROFILES } from '../core/policy.ts';

type Get = <T>(name: string) => T;

const BODY_BYTES = 256 * 1_024;

/** What the sections [execution], [simulation], [auth], [limits] and [retention] say of the execution API. */
export function executionOf(get: Get): ExecutionSettings {
  refuseContradictions(get);
  return {
    profile: profileOf(get),
    timeScale: get<number>('simulation.time_scale'),
    failureProbability: get<number>('simulation.failure_probability'),
    allowedTypes: get<readonly ExecutionType[]>('simulation.allowed_types'),
    maxRuntimeMs: get<number>('execution.max_runtime'),
    heartbeatMs: get<number>('execution.heartbeat'),
    queueSize: get<number>('limits.queue_size'),
    activeJobs: get<number>('limits.active_jobs'),
    quota: get<number>('limits.quota'),
    payloadBytes: get<number>('limits.payload_size'),
    bodyBytes: get<number | null>('limits.body_size') ?? BODY_BYTES,
    hideForeignJobs: get<boolean>('execution.hide_foreign_jobs'),
    duplicateWindowMs: get<number>('execution.duplicate_window'),
    keyLifetimeMs: get<number>('auth.key_lifetime'),
    revokedKeysMs: get<number>('retention.revoked_keys'),
    registration: get<'open' | 'token'>('auth.registration'),
    bootstrapToken: get<string | null>('auth.bootstrap_token'),
    openCallsPerMinute: get<number>('auth.open_calls_per_minute'),
  };
}

function profileOf(get: Get): Policy {
  const profile: Policy = PROFILES.forgerun;
  return {
    ...profile,
    maxAttempts: get<number>('execution.max_retries') + 1,
    timeoutMs: Math.ceil(get<number>('execution.max_runtime') * get<number>('simulation.time_scale')),
    leaseMs: get<number>('execution.lease'),
    backoff: {
      ...profile.backoff,
      initialDelayMs: get<number>('execution.backoff_base'),
      maxDelayMs: get<number>('execution.backoff_max'),
    },
    autoRetry: get<boolean>('execution.auto_retry'),
    retentionMs: get<number>('retention.jobs'),
  };
}

function refuseContradictions(get: Get): void {
  const issues: Issue[] = [];
  const demand = (holds: boolean, field: string, message: string): void => {
    if (!holds) issues.push({ field, code: 'INVALID_VALUE', message: `${field} ${message}` });
  };
  const heartbeatMs = get<number>('execution.heartbeat');
  demand(heartbeatMs * 2 <= get<number>('execution.lease'), 'execution.heartbeat', 'must be at most half of the lease');
  const maxMs = get<number>('execution.backoff_max');
  demand(maxMs >= get<number>('execution.backoff_base'), 'execution.backoff_max', 'must not be below backoff_base');
  if (issues.length === 0) return;
  const message = `The configuration is not valid: ${issues.map((issue) => issue.message).join('; ')}`;
  throw new AppError('INVALID_CONFIG', { message, details: issues });
}
