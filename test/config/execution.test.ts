import { describe, expect, it } from 'vitest';
import type { ExecutionSettings } from '../../src/core/execution/settings.ts';
import { checkPolicy } from '../../src/core/policy.ts';
import { configOf, refusal } from './environment.ts';

const DAY = 86_400_000;

const load = (environment: Record<string, string> = {}): ExecutionSettings => configOf(environment).execution;

describe('the settings of the execution API', () => {
  it('have defaults that make a whole policy', () => {
    const settings = load();
    expect(checkPolicy(settings.profile, settings.profile)).toEqual([]);
    expect(settings).toMatchObject({
      profile: {
        ...{ profile: 'forgerun', maxAttempts: 4, timeoutMs: 120_000, leaseMs: 30_000, lifetimeMs: null },
        ...{ autoRetry: false, onOrphan: 'fail', cancelsAtOnce: true, retriesByHand: 'within_limit' },
        backoff: { strategy: 'EXPONENTIAL', initialDelayMs: 1_000, maxDelayMs: 60_000, multiplier: 2, jitter: true },
        retentionMs: 30 * DAY,
      },
      ...{ timeScale: 1, failureProbability: 0.1, allowedTypes: ['EXECUTE', 'DEFERRED', 'EMIT_EVENT'] },
      ...{ maxRuntimeMs: 120_000, heartbeatMs: 5_000, queueSize: 100_000, orgShare: 0.5, activeJobs: 1_000, quota: 0 },
      ...{ payloadBytes: 1_048_576, bodyBytes: 262_144, hideForeignJobs: false, duplicateWindowMs: 0 },
      ...{ keyLifetimeMs: 90 * DAY, revokedKeysMs: 90 * DAY, registration: 'open', bootstrapToken: null },
      openCallsPerMinute: 60,
    });
  });

  it('set how long an attempt may run, scaled as the work is [FR-18.04]', () => {
    expect(load({ MILLRACE_EXECUTION_MAX_RUNTIME: '10s' })).toMatchObject({
      maxRuntimeMs: 10_000,
      profile: { timeoutMs: 10_000 },
    });
    const scaled = { MILLRACE_EXECUTION_MAX_RUNTIME: '10s', MILLRACE_SIMULATION_TIME_SCALE: '0.00001' };
    expect(load(scaled)).toMatchObject({ maxRuntimeMs: 10_000, profile: { timeoutMs: 1 } });
  });

  it('set how long jobs are kept, and their events and reports with them [FR-18.07]', () => {
    expect(load({ MILLRACE_RETENTION_JOBS: '1d' }).profile.retentionMs).toBe(DAY);
    expect(load({ MILLRACE_RETENTION_REVOKED_KEYS: '2d' }).revokedKeysMs).toBe(2 * DAY);
  });

  it('set the failure probability, the retries, their backoff and the concurrency of workers [FR-18.09]', () => {
    expect(load({ MILLRACE_SIMULATION_FAILURE_PROBABILITY: '0' }).failureProbability).toBe(0);
    const retries = {
      ...{ MILLRACE_EXECUTION_MAX_RETRIES: '0', MILLRACE_EXECUTION_AUTO_RETRY: 'true' },
      ...{ MILLRACE_EXECUTION_BACKOFF_BASE: '50ms', MILLRACE_EXECUTION_BACKOFF_MAX: '200ms' },
    };
    expect(load(retries).profile).toMatchObject({
      ...{ maxAttempts: 1, autoRetry: true, backoff: { initialDelayMs: 50, maxDelayMs: 200 } },
    });
    const environment = { MILLRACE_WORKERS_CONCURRENCY: '7' };
    expect(configOf(environment).workers.concurrency).toBe(7);
  });

  it('set the limits and who may register', () => {
    const environment = {
      ...{ MILLRACE_LIMITS_QUOTA: '5', MILLRACE_LIMITS_QUEUE_SIZE: '6', MILLRACE_LIMITS_ACTIVE_JOBS: '7' },
      ...{ MILLRACE_LIMITS_BODY_SIZE: '1KB', MILLRACE_LIMITS_PAYLOAD_SIZE: '2KB' },
      ...{ MILLRACE_AUTH_REGISTRATION: 'token', MILLRACE_AUTH_BOOTSTRAP_TOKEN: 'sixteen-letters!' },
      ...{ MILLRACE_EXECUTION_HIDE_FOREIGN_JOBS: 'true', MILLRACE_EXECUTION_DUPLICATE_WINDOW: '1m' },
      ...{ MILLRACE_EXECUTION_LEASE: '2s', MILLRACE_EXECUTION_HEARTBEAT: '1s' },
      ...{ MILLRACE_SIMULATION_ALLOWED_TYPES: 'EXECUTE, EXECUTE', MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: '8' },
    };
    expect(load(environment)).toMatchObject({
      ...{ quota: 5, queueSize: 6, activeJobs: 7, bodyBytes: 1_024, payloadBytes: 2_048 },
      ...{ registration: 'token', bootstrapToken: 'sixteen-letters!', hideForeignJobs: true, duplicateWindowMs: 60_000 },
      ...{ heartbeatMs: 1_000, allowedTypes: ['EXECUTE'], openCallsPerMinute: 8, profile: { leaseMs: 2_000 } },
    });
  });

  it.each([
    [{ MILLRACE_EXECUTION_HEARTBEAT: '20s' }, 'execution.heartbeat must be at most half of execution.lease'],
    [{ MILLRACE_EXECUTION_BACKOFF_BASE: '2m' }, 'execution.backoff_max must not be less than execution.backoff_base'],
    [{ MILLRACE_SIMULATION_FAILURE_PROBABILITY: '1.5' }, 'must be a number from 0 to 1'],
    [{ MILLRACE_SIMULATION_ALLOWED_TYPES: 'RESIZE' }, 'must be a list of at least one of "EXECUTE"'],
    [{ MILLRACE_SIMULATION_ALLOWED_TYPES: ',' }, 'must be a list of at least one of "EXECUTE"'],
    [{ MILLRACE_EXECUTION_MAX_RETRIES: '100' }, 'must be a whole number from 0 to 99'],
    [{ MILLRACE_AUTH_REGISTRATION: 'closed' }, 'must be one of "open", "token"'],
  ])('refuse %j with a sentence', (environment, sentence) => {
    expect(refusal(environment as Record<string, string>)).toContain(sentence);
  });
});
