import { fingerprint } from '../../core/canonical-json.ts';
import { AppError } from '../../core/errors.ts';
import { claimReply, findReply } from '../../ledger/access/create-replies.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';

type Repeatable = {
  /** The kind of thing and its owner. The same key in another scope is another key. */
  readonly scope: string;
  /** The caller's Idempotency-Key. Without one, no request counts as a repeat. */
  readonly key: string | undefined;
  readonly request: unknown;
};

export type Creation<T> = Repeatable & {
  /** The reply to store for repeats. It must not contain secrets. */
  readonly reply: Record<string, unknown>;
  /** Runs in a transaction. */
  create(db: Queryable): Promise<T>;
};

export type Created<T> = { kind: 'created'; value: T } | { kind: 'repeated'; reply: Record<string, unknown> };

const REPLY_LIFETIME_MS = 30 * 86_400_000;

/** Creates one thing for all requests with the same key. Refuses a different request with that key as DUPLICATE. */
export async function createOnce<T>(database: Database, creation: Creation<T>): Promise<Created<T>> {
  const { key, scope, reply, create, request } = creation;
  if (key === undefined) return { kind: 'created', value: await inTransaction(database.api, create, { mayRepeat: true }) };
  const claim = { scope, key, reply, fingerprint: fingerprint(request), lifetimeMs: REPLY_LIFETIME_MS };
  const made = await inTransaction(
    database.api,
    async (client) => ((await claimReply(client, claim)) ? { value: await create(client) } : null),
    { mayRepeat: true },
  );
  if (made !== null) return { kind: 'created', value: made.value };
  const first = await findRepeat(database, creation);
  if (first === null) throw new AppError('DUPLICATE');
  return { kind: 'repeated', reply: first };
}

/** The stored reply of an earlier creation with the key; null if there was none. */
export async function findRepeat(database: Database, { scope, key, request }: Repeatable): Promise<Record<string, unknown> | null> {
  const found = key === undefined ? null : await findReply(database.api, { scope, key });
  if (found === null) return null;
  if (found.fingerprint !== fingerprint(request)) throw new AppError('DUPLICATE');
  return found.reply;
}
