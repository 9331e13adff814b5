import { type Queryable, run, sqlStateOf, statement } from '../driver/statement.ts';
import type { Projection } from './positions.ts';

/** An item that a projection could not process. `seq` and `n` are null for a whole record, `webhookId` for every target. */
export type SetAside = {
  readonly projection: Projection;
  readonly orgId: string | null;
  readonly recordId: number;
  readonly seq: number | null;
  readonly n: number | null;
  readonly webhookId: string | null;
  readonly error: unknown;
};

const SET_ASIDE = statement(
  'set_aside',
  `INSERT INTO millrace.set_aside (projection, org_id, record_id, seq, n, webhook_id, error, at)
   VALUES ($1, $2::uuid, $3::int8, $4::int8, $5::int4, $6::uuid, $7, millrace.clock())`,
);

/** Data exceptions, violated constraints and exceeded limits. The same item would fail again on every retry. */
const DATA_ERROR = /^(?:22|23|54)/;

/** An item could not be converted to deliveries, because of an error outside the database. */
export class Unprocessable extends Error {}

/** Whether the data caused the error, and not the database, its schema or another transaction. */
export const isDataError = (error: unknown): boolean => error instanceof Unprocessable || DATA_ERROR.test(sqlStateOf(error) ?? '');

/** Records an item that was skipped. Call it in the transaction that moves the position. */
export async function writeSetAside(db: Queryable, item: SetAside): Promise<void> {
  const { projection, orgId, recordId, seq, n, webhookId, error } = item;
  const message = (error instanceof Error ? error.message : String(error)).replaceAll('\u0000', '').slice(0, 1_000);
  await run(db, SET_ASIDE, [projection, orgId, recordId, seq, n, webhookId, message]);
}
