import { type Queryable, run, statement } from '../driver/statement.ts';

const CREATE = statement(
  'create_client',
  `WITH made AS (
     INSERT INTO millrace.orgs (id, slug, created_at) VALUES ($1::uuid, 'client-' || $1::uuid, millrace.clock())
     RETURNING id, created_at
   )
   INSERT INTO millrace.clients (org_id, created_at) SELECT id, created_at FROM made RETURNING created_at AS "createdAt"`,
);

// An org that an operator created or gave a key cannot get its first key without a credential.
const FIND = statement(
  'find_client',
  `SELECT coalesce(c.created_at, o.created_at) AS "createdAt", o.requests_per_minute AS "requestsPerMinute",
     c.org_id IS NULL OR c.first_key_issued_at IS NOT NULL
       OR EXISTS (SELECT FROM millrace.api_keys k WHERE k.org_id = o.id) AS "hadKey"
   FROM millrace.orgs o LEFT JOIN millrace.clients c ON c.org_id = o.id WHERE o.id = $1::uuid`,
);

/** Creates an org that may fetch its first key without a credential. */
export async function createClient(db: Queryable, id: string): Promise<{ createdAt: Date }> {
  const [created] = await run<{ createdAt: Date }>(db, CREATE, [id]);
  return created as { createdAt: Date };
}

export type Client = {
  createdAt: Date;
  /** Whether it ever had a key. If so, only its own keys can act for it. */
  hadKey: boolean;
  /** Null if the configured limit applies. */
  requestsPerMinute: number | null;
};

export async function findClient(db: Queryable, id: string): Promise<Client | null> {
  return (await run<Client>(db, FIND, [id]))[0] ?? null;
}
