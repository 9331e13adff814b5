import type { Database } from '../../src/ledger/driver/database.ts';

/** For tests that are not about it: a busy machine may need longer for a connection than the two seconds that a caller waits for one. */
export function waitLonger({ api, searching, reading, workers, maintenance, projecting }: Database): void {
  for (const pool of [api, searching, reading, workers, maintenance, projecting]) pool.options.connectionTimeoutMillis = 60_000;
}
