import { AppError } from '../../core/errors.ts';
import { findApiKeys, type StoredApiKey, touchApiKeys } from '../../ledger/access/api-keys.ts';
import { createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { LONGEST_STATEMENT_MS, within } from '../admission/bounded-wait.ts';

export type { StoredApiKey } from '../../ledger/access/api-keys.ts';

export type KeyLookup = {
  /** The key of that id, whosever it is and whether or not it still holds. */
  find(id: string): Promise<StoredApiKey | null>;
  noteUse(ids: readonly string[]): Promise<void>;
};

const MAX_WAITING = 2_000;

/** Reads keys as they stand in the ledger. Callers of one moment share a statement; too many are refused. */
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
    overflow: () => new AppError('UNAVAILABLE', { message: 'Too many keys are being checked.', retryAfterMs: 1_000 }),
  });
  return { find: (id) => batcher.add(id), noteUse: (ids) => touchApiKeys(database.api, ids) };
}
