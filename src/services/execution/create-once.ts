import { fingerprint } from '../../core/canonical-json.ts';
import { AppError } from '../../core/errors.ts';
import { claimReply, findReply } from '../../ledger/access/create-replies.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';

export type Creation<T> = {
  /** What is created, and for whom: keys of different scopes have nothing to do with each other. */
  scope: string;
  /** The caller's Idempotency-Key; without one nothing is a repeat. */
  key: string | undefined;
  request: unknown;
  /** What a repeat needs to answer the same, without secrets. */
  reply: Record<string, unknown>;
  create(db: Queryable): Promise<T>;
};

export type Created<T> = { kind: 'created'; value: T } | { kind: 'repeated'; reply: Record<string, unknown> };

const REPLY_LIFETIME_MS = 30 * 86_400_000;

/** Creates once for all requests that carry the same key. Another request with the key is refused with DUPLICATE. */
export async function createOnce<T>(database: Database, creation: Creation<T>): Promise<Created<T>> {
  const { key, scope, reply, create } = creation;
  if (key === undefined) return { kind: 'created', value: await create(database.api) };
  const wanted = { scope, key, reply, fingerprint: fingerprint(creation.request), lifetimeMs: REPLY_LIFETIME_MS };
  const value = await inTransaction(
    database.api,
    async (client) => ((await claimReply(client, wanted)) ? { created: await create(client) } : null),
    { mayRepeat: true },
  );
  return value === null ? repeated(database, wanted) : { kind: 'created', value: value.created };
}

/** What an earlier creation with the key answered; null when there was none. */
export async function findRepeat(
  database: Database,
  { scope, key, request }: { scope: string; key: string | undefined; request: unknown },
): Promise<Record<string, unknown> | null> {
  const found = key === undefined ? null : await findReply(database.api, { scope, key });
  if (found === null) return null;
  if (found.fingerprint !== fingerprint(request)) throw new AppError('DUPLICATE');
  return found.reply;
}

async function repeated(
  database: Database,
  wanted: { scope: string; key: string; fingerprint: string },
): Promise<{ kind: 'repeated'; reply: Record<string, unknown> }> {
  const found = await findReply(database.api, wanted);
  if (found === null || found.fingerprint !== wanted.fingerprint) throw new AppError('DUPLICATE');
  return { kind: 'repeated', reply: found.reply };
}
