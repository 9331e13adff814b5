/** Rate limiters as several processes have them: each with connections of its own to one ledger. */
import { onTestFinished, vi } from 'vitest';
import type { LimitVerdict } from '../../src/http/shared/identity.ts';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import type { TestLedger } from '../ledger/fixture.ts';

const MINUTE_MS = 60_000;

export function openLimiter(ledger: TestLedger, requestsPerMinute?: number): OrgRateLimiter {
  const database = openDatabase({ url: ledger.db.url, apiPool: 2 });
  onTestFinished(() => database.close());
  return new OrgRateLimiter({ database, requestsPerMinute });
}

/** Moves the ledger's clock to so many milliseconds after the next minute began. */
export async function moveIntoMinute(ledger: TestLedger, wantedMs: number): Promise<void> {
  const { rows } = await ledger.db.api.query('SELECT extract(epoch FROM millrace.clock())::float8 * 1000 AS now');
  await ledger.moveClock(Math.round(MINUTE_MS - (rows[0].now % MINUTE_MS) + wantedMs));
}

/** Lets this time pass for the ledger and for this process, until the test has finished. */
export async function letPass(ledger: TestLedger, ms: number): Promise<void> {
  await ledger.moveClock(ms);
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
  onTestFinished(() => clock.mockRestore());
}

export const takeMany = (limiter: OrgRateLimiter, orgId: string, count: number): Promise<LimitVerdict[]> =>
  Promise.all(Array.from({ length: count }, () => limiter.take(orgId)));

export const allowedOf = (verdicts: readonly LimitVerdict[]): number => verdicts.filter(({ allowed }) => allowed).length;
