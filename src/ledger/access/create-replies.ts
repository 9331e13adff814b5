import { type Queryable, run, statement } from '../driver/statement.ts';

// A repeat waits here while the first request is in flight, until that commits or rolls back.
const CLAIM = statement(
  'claim_create_reply',
  `INSERT INTO millrace.create_replies AS r (scope, key, fingerprint, reply, expires_at)
   VALUES ($1, $2, $3, $4::json, millrace.clock() + $5::float8 * interval '1 millisecond')
   ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, reply = excluded.reply,
     expires_at = excluded.expires_at
   WHERE r.expires_at <= millrace.clock()
   RETURNING scope`,
);

const FIND = statement(
  'find_create_reply',
  `SELECT fingerprint, reply FROM millrace.create_replies
   WHERE scope = $1 AND key = $2 AND expires_at > millrace.clock()`,
);

export type ReplyKey = { scope: string; key: string };
export type NewReply = ReplyKey & { fingerprint: string; reply: object; lifetimeMs: number };

/** Whether this is the first creation with the key. Call it in the transaction that creates. */
export async function claimReply(db: Queryable, { scope, key, fingerprint, reply, lifetimeMs }: NewReply): Promise<boolean> {
  const rows = await run(db, CLAIM, [scope, key, fingerprint, JSON.stringify(reply), lifetimeMs]);
  return rows.length === 1;
}

export type StoredReply = { fingerprint: string; reply: Record<string, unknown> };

export async function findReply(db: Queryable, { scope, key }: ReplyKey): Promise<StoredReply | null> {
  const [row] = await run<StoredReply>(db, FIND, [scope, key]);
  return row ?? null;
}
