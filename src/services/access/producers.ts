import { randomBytes } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import { scramVerifier } from '../../core/scram-verifier.ts';
import {
  deleteProducer,
  createProducer as insertProducer,
  type Producer,
  listProducers as readProducers,
} from '../../ledger/access/producers.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { sqlStateOf } from '../../ledger/driver/statement.ts';
import { requireOrg } from './create-org.ts';

export type { Producer };

/** The password is shown once and cannot be read again. */
export type CreatedProducer = {
  readonly role: string;
  readonly org: string;
  readonly orgId: string;
  readonly password: string;
  readonly url: string;
};

const NAME = /^[a-z][a-z0-9_]{0,62}$/;
/** Names that PostgreSQL or Millrace use. */
const RESERVED = /^(?:pg_.*|millrace.*|public|none|user|session_user|current_user|current_role)$/;
const PASSWORD_BYTES = 24;
const SALT_BYTES = 16;

const DUPLICATE_OBJECT = '42710';
const INSUFFICIENT_PRIVILEGE = '42501';
const OBJECTS_DEPEND = '2BP01';

/** Creates a database role that may publish tasks for one org, and nothing else. */
export async function createProducer(database: Database, { role, org: slug }: { role: string; org: string }): Promise<CreatedProducer> {
  if (!NAME.test(role) || RESERVED.test(role)) {
    const message = `the name of a producer must have 1 to 63 lower-case letters, digits and underscores, start with a letter, and not begin with pg_ or millrace`;
    throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'name', code: 'INVALID_NAME', message }] });
  }
  const org = await requireOrg(database, { slug });
  const password = randomBytes(PASSWORD_BYTES).toString('base64url');
  const verifier = scramVerifier(password, randomBytes(SALT_BYTES));
  await insertProducer(database.api, { role, verifier, orgId: org.id }).catch((error) => {
    throw explained(error, role);
  });
  return { role, org: org.slug, orgId: org.id, password, url: urlFor(database.url, { role, password }) };
}

/** Removes the role. Tasks that it has published are still taken. */
export async function removeProducer({ api }: Database, { role }: { role: string }): Promise<void> {
  const wasThere = await deleteProducer(api, role).catch((error) => {
    throw explained(error, role);
  });
  if (!wasThere)
    throw new AppError('NOT_FOUND', { message: `There is no producer "${role.slice(0, 100)}". See "millrace producers list".` });
}

export const listProducers = ({ api }: Database): Promise<Producer[]> => readProducers(api);

function explained(error: unknown, role: string): unknown {
  const state = sqlStateOf(error);
  if (state === DUPLICATE_OBJECT) {
    return new AppError('CONFLICT', { message: `The database server already has a role "${role}". Choose another name.`, cause: error });
  }
  if (state === OBJECTS_DEPEND) {
    const message = `The role "${role}" owns objects or has rights elsewhere on this database server, or is connected and has temporary tables. Remove them with DROP OWNED BY ${role}, and repeat the command.`;
    return new AppError('CONFLICT', { message, cause: error });
  }
  if (state !== INSUFFICIENT_PRIVILEGE) return error;
  const message =
    'The database user of this command may not create roles for producers. Use the user that owns the schema "millrace", and let an administrator of the database run ALTER ROLE that_user CREATEROLE. If another user created the role millrace_producer: GRANT millrace_producer TO that_user WITH ADMIN OPTION.';
  return new AppError('FORBIDDEN', { message, cause: error });
}

/** The address of the database with the credentials of the producer. */
function urlFor(url: string, { role, password }: { role: string; password: string }): string {
  const own = new URL(url);
  own.username = role;
  own.password = password;
  return own.href;
}
