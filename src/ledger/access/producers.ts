import { type Queryable, run, statement } from '../driver/statement.ts';

/** A database role that may publish tasks for one org. */
export type Producer = { readonly role: string; readonly orgId: string; readonly org: string; readonly createdAt: Date };

const CREATE = statement('create_producer', 'SELECT millrace.create_producer($1::text, $2::text, $3::uuid)');

const DELETE = statement('delete_producer', 'SELECT millrace.delete_producer($1::text) AS "wasThere"');

const LIST = statement(
  'list_producers',
  `SELECT p.role, p.org_id AS "orgId", o.slug AS org, p.created_at AS "createdAt"
   FROM millrace.producers p JOIN millrace.orgs o ON o.id = p.org_id ORDER BY p.role`,
);

/** The verifier is the SCRAM form of the password. */
export async function createProducer(db: Queryable, { role, verifier, orgId }: { role: string; verifier: string; orgId: string }) {
  await run(db, CREATE, [role, verifier, orgId]);
}

/** Returns false if there is no such producer. */
export async function deleteProducer(db: Queryable, role: string): Promise<boolean> {
  return (await run<{ wasThere: boolean }>(db, DELETE, [role]))[0]?.wasThere === true;
}

export async function listProducers(db: Queryable): Promise<Producer[]> {
  return run<Producer>(db, LIST);
}
