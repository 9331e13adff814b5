import { AppError } from '../../core/errors.ts';
import { type QuotaUse, useQuota } from '../../ledger/access/quota.ts';
import { createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { LONGEST_STATEMENT_MS, within } from '../admission/bounded-wait.ts';

type QuotaVerdict = {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** The time until the quota starts over. */
  readonly resetMs: number;
};

export type ClientQuota = { take(orgId: string): Promise<QuotaVerdict> };

const MAX_WAITING = 5_000;
const MAX_REMEMBERED = 10_000;

/**
 * Counts the requests of each client in a UTC day, exactly over all processes. Concurrent requests share a statement.
 * A client without quota left is refused without a statement.
 */
export function createQuota(database: Database, quota: number): ClientQuota {
  const usedUpUntilMs = new Map<string, number>();
  const batcher = createBatcher<string, QuotaVerdict>({
    send: async (orgIds) => judge(orgIds, await count(database, orgIds), quota),
    maxItems: 500,
    maxInFlight: 1,
    maxWaiting: MAX_WAITING,
    overflow: () => new AppError('UNAVAILABLE', { message: 'Too many concurrent requests. Retry in a second.', retryAfterMs: 1_000 }),
  });
  return {
    async take(orgId) {
      const leftMs = (usedUpUntilMs.get(orgId) ?? 0) - performance.now();
      if (leftMs > 0) return { allowed: false, limit: quota, remaining: 0, resetMs: leftMs };
      const verdict = await batcher.add(orgId);
      usedUpUntilMs.delete(orgId);
      if (verdict.allowed) return verdict;
      if (usedUpUntilMs.size >= MAX_REMEMBERED) usedUpUntilMs.clear();
      usedUpUntilMs.set(orgId, performance.now() + verdict.resetMs);
      return verdict;
    },
  };
}

async function count(database: Database, orgIds: readonly string[]): Promise<Map<string, QuotaUse>> {
  const wanted = new Map<string, number>();
  for (const orgId of orgIds) wanted.set(orgId, (wanted.get(orgId) ?? 0) + 1);
  const uses = [...wanted].map(([orgId, times]) => ({ orgId, wanted: times }));
  const counted = await within(LONGEST_STATEMENT_MS, useQuota(database.api, uses));
  return new Map(counted.map((use) => [use.orgId, { ...use, used: use.used - (wanted.get(use.orgId) ?? 0) }]));
}

/** One verdict for each request, in the order of arrival. */
function judge(orgIds: readonly string[], before: Map<string, QuotaUse>, quota: number): QuotaVerdict[] {
  return orgIds.map((orgId) => {
    const use = before.get(orgId);
    if (use === undefined) return { allowed: false, limit: quota, remaining: 0, resetMs: 1_000 };
    use.used++;
    const allowed = use.used <= quota;
    return { allowed, limit: quota, remaining: Math.max(0, quota - use.used), resetMs: Math.max(1, use.endsInMs) };
  });
}
