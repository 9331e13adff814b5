import { AppError } from '../../core/errors.ts';
import { leasePermits, type RateLease, type WantedPermits } from '../../ledger/access/rate-leases.ts';
import { createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { LONGEST_STATEMENT_MS, within } from './bounded-wait.ts';

export type { RateLease } from '../../ledger/access/rate-leases.ts';

/** Returns null if the org does not exist. The caller must not ask twice for one org at the same time. */
export type PermitLeases = { lease(wanted: WantedPermits): Promise<RateLease | null> };

const MAX_WAITING = 2_000;

/** Takes permits from the limits of the current minute. Orgs that ask at the same time share one statement. */
export function createPermitLeases(database: Database, { requestsPerMinute }: { requestsPerMinute: number }): PermitLeases {
  const batcher = createBatcher<WantedPermits, RateLease | null>({
    async send(wants) {
      const leases = await within(LONGEST_STATEMENT_MS, leasePermits(database.api, wants, requestsPerMinute));
      const byOrg = new Map(leases.map((lease) => [lease.orgId, lease]));
      return wants.map(({ orgId }) => byOrg.get(orgId) ?? null);
    },
    maxItems: 200,
    maxInFlight: 1,
    maxWaiting: MAX_WAITING,
    overflow: () =>
      new AppError('UNAVAILABLE', {
        message: 'Too many orgs wait for their rate limit. Try again later.',
        retryAfterMs: 1_000,
      }),
  });
  return { lease: (wanted) => batcher.add(wanted) };
}
