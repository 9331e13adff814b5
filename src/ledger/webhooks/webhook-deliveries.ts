import type { AttemptVerdict, DeliveryState } from '../../core/webhook-words.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { LAST_ID, microseconds, momentOf, readWebhookCursor, writeWebhookCursor } from './webhook-cursor.ts';

type DeliveryAttempt = {
  readonly n: number;
  readonly endedAt: Date;
  readonly durationMs: number;
  readonly verdict: AttemptVerdict;
  readonly status: number | null;
  readonly errorCode: string | null;
  /** The beginning of the response, masked. */
  readonly answer: string | null;
};

export type Delivery = {
  readonly id: string;
  readonly event: string;
  /** Null for an event that belongs to no job. */
  readonly jobId: string | null;
  readonly state: DeliveryState;
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  readonly attempts: readonly DeliveryAttempt[];
};

const STATE = `CASE WHEN d.ended_at IS NULL AND d.tries > 0 THEN 'retrying' WHEN d.state = 'live' THEN 'delivering' ELSE d.state END`;

const VIEW = `d.id, d.event, d.job_id AS "jobId", ${STATE} AS state, d.created_at AS "createdAt", d.ended_at AS "endedAt"`;

const LIST = statement(
  'list_deliveries',
  `SELECT ${VIEW}, ${microseconds('d.created_at')} AS "createdUs"
   FROM millrace.webhook_deliveries d
   WHERE d.org_id = $1::uuid AND d.webhook_id = $2::uuid
     AND (d.created_at, d.id) < (${momentOf('$3')}, coalesce($4::uuid, ${LAST_ID}))
     AND d.created_at >= coalesce($5::timestamptz, '-infinity')
     AND ($6::text IS NULL OR ${STATE} = $6) AND ($7::text IS NULL OR d.event = $7)
   ORDER BY d.created_at DESC, d.id DESC LIMIT $8::int4`,
);

const FIND = statement(
  'find_delivery',
  `SELECT ${VIEW}, d.body FROM millrace.webhook_deliveries d
   WHERE d.org_id = $1::uuid AND d.webhook_id = $2::uuid AND d.id = $3::uuid`,
);

const ATTEMPTS = statement(
  'attempts_of_deliveries',
  `SELECT delivery_id AS "deliveryId", n, ended_at AS "endedAt", duration_ms AS "durationMs", verdict, status,
     error_code AS "errorCode", answer
   FROM millrace.webhook_attempts WHERE org_id = $1::uuid AND delivery_id = ANY ($2::uuid[]) ORDER BY delivery_id, n`,
);

export type DeliveryFilter = { state?: DeliveryState; event?: string; since?: Date };
export type DeliveryPage = { filter: DeliveryFilter; limit: number; cursor: string | null };

type Row = Omit<Delivery, 'attempts'>;

/** Returns the deliveries of a target, newest first. */
export async function listDeliveries(
  db: Queryable,
  orgId: string,
  { webhookId, filter, limit, cursor }: DeliveryPage & { webhookId: string },
): Promise<{ deliveries: Delivery[]; nextCursor: string | null }> {
  const scope = { list: 'DELIVERIES', orgId, filter: { webhookId, ...filter } } as const;
  const seal = await sealOf(db);
  const after = cursor === null ? null : readWebhookCursor(seal, scope, cursor);
  const { since = null, state = null, event = null } = filter;
  const values = [orgId, webhookId, after?.createdUs ?? null, after?.id ?? null, since, state, event, limit + 1];
  const rows = await run<Row & { createdUs: number }>(db, LIST, values);
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  const deliveries = await withAttempts(
    db,
    orgId,
    page.map(({ createdUs: _, ...row }) => row),
  );
  return { deliveries, nextCursor: last === undefined ? null : writeWebhookCursor(seal, scope, last) };
}

/** Returns one delivery with its body. */
export async function findDelivery(
  db: Queryable,
  orgId: string,
  { webhookId, id }: { webhookId: string; id: string },
): Promise<(Delivery & { readonly body: string }) | null> {
  const rows = await run<Row & { body: string }>(db, FIND, [orgId, webhookId, id]);
  const [found] = await withAttempts(db, orgId, rows);
  return found ?? null;
}

async function withAttempts<R extends Row>(
  db: Queryable,
  orgId: string,
  rows: readonly R[],
): Promise<(R & { attempts: DeliveryAttempt[] })[]> {
  if (rows.length === 0) return [];
  const ids = rows.map(({ id }) => id);
  const attempts = await run<DeliveryAttempt & { deliveryId: string }>(db, ATTEMPTS, [orgId, uuidArray(ids)]);
  const byDelivery = Map.groupBy(attempts, ({ deliveryId }) => deliveryId);
  return rows.map((row) => ({
    ...row,
    attempts: (byDelivery.get(row.id) ?? []).map(({ deliveryId: _, ...attempt }) => attempt),
  }));
}
