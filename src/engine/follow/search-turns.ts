import { AppError } from '../../core/errors.ts';
import { DEFAULT_ORG_SHARE } from '../../core/fair-share.ts';
import { FairTurns } from '../../core/fair-turns.ts';
import { abortable } from '../../ledger/driver/abortable.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';

export type SearchTurnsOptions = {
  database: Database;
  /** The part of the connections for searches that one org may use while it is alone. */
  orgShare?: number;
};

/** An org with more searches than this sends them faster than they can be served. */
const MAX_WAITING = 100;
const RETRY_AFTER_MS = 1_000;

const tooMany = (): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `${MAX_WAITING} searches of the org wait for their turn (database.api_pool, limits.org_share). Send fewer at the same time.`,
    quota: { limit: 'org_searches', current: MAX_WAITING, maximum: MAX_WAITING, retryAfterMs: RETRY_AFTER_MS },
  });

/** Lets orgs take turns at the connections for searches, so that the searches of one org cost another only its fair share of them. */
export class SearchTurns {
  readonly #database: Database;
  readonly #turns: FairTurns;

  constructor({ database, orgShare = DEFAULT_ORG_SHARE }: SearchTurnsOptions) {
    this.#database = database;
    const limit = Math.max(1, database.searching.options.max);
    this.#turns = new FairTurns({ limit, part: orgShare, maxWaiting: MAX_WAITING, overflow: tooMany });
  }

  /** Once the signal is aborted, the search sends no further statement. */
  run<T>(orgId: string, search: (db: Queryable) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#turns.run(orgId, () => search(abortable(this.#database.searches.of(orgId), signal)), signal);
  }
}
