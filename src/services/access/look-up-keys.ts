import { AppError } from '../../core/errors.ts';
import { findApiKeys, type StoredApiKey, touchApiKeys } from '../../ledger/access/api-keys.ts';
import { createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { LONGEST_STATEMENT_MS, within } from '../admission/bounded-wait.ts';

export type { StoredApiKey } from '../../ledger/access/api-keys.ts';

export type KeyLookup = {
  /** Finds the key of any org, even an expired or revoked one. */
  find(id: string): Promise<StoredApiKey | null>;
  noteUse(ids: readonly string[]): Promise<void>;
};

const MAX_WAITING = 2_000;

/** Reads keys from the ledger. Concurrent lookups share a statement; the number of waiting lookups is bounded. */
export function createKeyLookup(database: Database): KeyLookup {
  const batcher = createBatcher<string, StoredApiKey | null>({
    async send(ids) {
      const keys = await within(LONGEST_STATEMENT_MS, findApiKeys(database.api, [...new Set(ids)]));
      const found = new Map(keys.map((key) => [key.id, key]));
      return ids.map((id) => found.get(id) ?? null);
    },
    maxItems: 200,
    maxInFlight: 1,
    maxWaiting: MAX_WAITING,
    overflow: () => new AppError('UNAVAILABLE', { message: 'Too many concurrent requests. Retry in a second.', retryAfterMs: 1_000 }),
  });
  return { find: (id) => batcher.add(id), noteUse: (ids) => touchApiKeys(database.api, ids) };
}
