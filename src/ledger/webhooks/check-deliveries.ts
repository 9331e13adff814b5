import { matchDeliveries, type OutboxJob, type PublicEvent, publicEventsOf, type Webhook } from '../../core/delivery-match.ts';
import { isTerminal } from '../../core/states.ts';
import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { outboxJobs } from './outbox-jobs.ts';

/** A violation in the deliveries of a job's events. */
export type DeliveryFinding = { invariant: 'I7'; orgId: string; jobId: string; what: string };

// Everything below the position has been dispatched. The position is read first, so that histories and deliveries are not older.
const TARGETS = statement(
  'check_webhooks',
  `SELECT o.org_id, (SELECT txid::text::int8 FROM millrace.projections WHERE name = 'webhooks') AS position,
     coalesce(json_agg(json_build_object('id', w.id, 'orgId', w.org_id, 'events', w.events,
       'sinceTxid', greatest(w.since_txid, w.filter_txid)::text::int8)) FILTER (WHERE w.id IS NOT NULL), '[]') AS webhooks
   FROM (SELECT org_id FROM millrace.webhooks WHERE kind = 'webhook' AND deleted_at IS NULL UNION SELECT org_id FROM millrace.callback_orgs) o
   LEFT JOIN millrace.webhooks w ON w.org_id = o.org_id AND w.kind = 'webhook' AND w.deleted_at IS NULL
   GROUP BY o.org_id ORDER BY o.org_id`,
);

const JOBS = statement(
  'check_delivered_jobs',
  'SELECT seq FROM millrace.jobs WHERE org_id = $1::uuid AND seq > $2::int8 ORDER BY seq LIMIT $3::int4',
);

const DELIVERIES = statement(
  'check_deliveries',
  `SELECT d.webhook_id, w.kind, w.url, d.job_id, d.n, d.index FROM millrace.webhook_deliveries d
   JOIN millrace.webhooks w ON w.id = d.webhook_id AND w.deleted_at IS NULL
   WHERE d.org_id = $1::uuid AND d.job_id = ANY ($2::uuid[])`,
);

// A job may end shortly before its outcome is recorded, and a sweep handles that.
const LANES = statement(
  'check_lanes',
  `SELECT d.org_id, coalesce(d.job_id, d.id) AS job_id, 'delivery ' || d.id || ' is live, but not the one of its lane' AS what
   FROM millrace.webhook_deliveries d JOIN millrace.webhook_lanes l ON l.webhook_id = d.webhook_id
   WHERE d.state = 'live' AND l.live_delivery IS DISTINCT FROM d.id
   UNION ALL
   SELECT l.org_id, coalesce(d.job_id, l.live_delivery), 'lane ' || l.webhook_id || ' has a delivery that is ' || coalesce(d.state, 'gone')
   FROM millrace.webhook_lanes l LEFT JOIN millrace.webhook_deliveries d ON d.id = l.live_delivery
   WHERE l.live_delivery IS NOT NULL AND d.state IS DISTINCT FROM 'live'
   UNION ALL
   SELECT l.org_id, l.live_job, 'lane ' || l.webhook_id || ' waits for a job that has ended'
   FROM millrace.webhook_lanes l LEFT JOIN millrace.jobs j ON j.id = l.live_job
   WHERE l.live_delivery IS NOT NULL AND (j.id IS NULL OR j.completed_at < millrace.clock() - interval '1 minute')`,
);

// Events are built from the job's row, so the job must not be removed before they are dispatched. Only events that were not dispatched
// yet are checked.
const UNTOLD = statement(
  'check_untold',
  `SELECT r.org_id, u.seq, r.to_state FROM (SELECT txid FROM millrace.projections WHERE name = 'webhooks') p
   CROSS JOIN LATERAL (SELECT r.* FROM millrace.records r WHERE r.txid >= p.txid OFFSET 0) r
   CROSS JOIN LATERAL unnest(r.seqs) AS u(seq)
   WHERE (EXISTS (SELECT FROM millrace.webhooks w WHERE w.org_id = r.org_id AND w.deleted_at IS NULL AND w.since_txid < r.txid)
       OR EXISTS (SELECT FROM millrace.callback_orgs c WHERE c.org_id = r.org_id))
     AND NOT EXISTS (SELECT FROM millrace.jobs j WHERE j.org_id = r.org_id AND j.seq = u.seq OFFSET 0)
   ORDER BY r.org_id, u.seq LIMIT 1000`,
);

const BATCH = 1_000;

type Target = { org_id: string; position: number; webhooks: Webhook[] };
type Delivery = {
  webhook_id: string;
  kind: 'webhook' | 'callback';
  url: string;
  job_id: string;
  n: number;
  index: number;
};

/** I7: each event of a job has one delivery for each matching target, and there are no other deliveries. */
export async function checkDeliveries(db: Queryable): Promise<DeliveryFinding[]> {
  const lanes = await run<{ org_id: string; job_id: string; what: string }>(db, LANES);
  const findings: DeliveryFinding[] = lanes.map((row) => finding(row.org_id, row.job_id, row.what));
  for (const row of await run<{ org_id: string; seq: number; to_state: string }>(db, UNTOLD))
    findings.push(finding(row.org_id, `number ${row.seq}`, `was removed before its change to ${row.to_state} was dispatched`));
  for (const target of await run<Target>(db, TARGETS)) {
    for (let after = -1; ; ) {
      const rows = await run<{ seq: number }>(db, JOBS, [target.org_id, after, BATCH]);
      const keys = rows.map(({ seq }) => ({ orgId: target.org_id, seq }));
      const jobs = keys.length === 0 ? [] : await outboxJobs(db, keys, [target.org_id]);
      const found = await run<Delivery>(db, DELIVERIES, [target.org_id, uuidArray(jobs.map(({ jobId }) => jobId))]);
      const byJob = Map.groupBy(found, ({ job_id }) => job_id);
      for (const job of jobs) findings.push(...judge(job, byJob.get(job.jobId) ?? [], target));
      if (rows.length < BATCH) break;
      after = rows.at(-1)?.seq as number;
    }
  }
  return findings;
}

function* judge(job: OutboxJob, deliveries: readonly Delivery[], target: Target): Generator<DeliveryFinding> {
  const events = publicEventsOf(job);
  const wanted = expected(job, events, target);
  const made = new Set(deliveries.flatMap((delivery) => [keyOf(delivery), callbackKeyOf(delivery)]));
  for (const [key, event] of wanted) {
    if (!made.has(key)) yield finding(job.orgId, job.jobId, `${event.name} (event ${event.n}) was never queued for ${key.split(' ')[0]}`);
  }
  const known = new Map(events.map((event) => [`${event.n}:${event.index}`, event]));
  const lastN = job.history.at(-1)?.n ?? 0;
  const firstN = job.history[0]?.n ?? 0;
  for (const delivery of deliveries) {
    // Deliveries that came after the history was read, or whose record was removed, are not checked.
    if (delivery.n > lastN || delivery.n < firstN) continue;
    const event = known.get(`${delivery.n}:${delivery.index}`);
    if (event === undefined) yield finding(job.orgId, job.jobId, `event ${delivery.n} has a delivery but nothing to deliver`);
    else if (isUnasked(event, delivery, target))
      yield finding(job.orgId, job.jobId, `${event.name} (event ${event.n}) is not for webhook ${delivery.webhook_id}`);
  }
}

/** A callback may change while its job is not finished. So only the final event is certain to match the current callback. */
function expected(job: OutboxJob, events: readonly PublicEvent[], target: Target): Map<string, PublicEvent> {
  const dispatched = events.filter(({ txid }) => txid < target.position);
  const last = job.history.at(-1);
  const wanted = new Map<string, PublicEvent>();
  for (const { event, webhookId, url } of matchDeliveries(dispatched, target.webhooks)) {
    const { n, index } = event;
    if (webhookId !== undefined) wanted.set(keyOf({ webhook_id: webhookId, n, index }), event);
    else if (last !== undefined && isTerminal(last.to) && n === last.n) wanted.set(callbackKeyOf({ url, n, index }), event);
  }
  return wanted;
}

function isUnasked(event: PublicEvent, { kind, webhook_id }: Delivery, { webhooks }: Target): boolean {
  if (kind === 'callback') return false;
  const webhook = webhooks.find(({ id }) => id === webhook_id);
  if (webhook === undefined || event.txid <= webhook.sinceTxid) return false;
  return matchDeliveries([{ ...event, callbackUrl: null }], [webhook]).length === 0;
}

const keyOf = ({ webhook_id, n, index }: Pick<Delivery, 'webhook_id' | 'n' | 'index'>): string => `${webhook_id} ${n}:${index}`;
const callbackKeyOf = ({ url, n, index }: Pick<Delivery, 'url' | 'n' | 'index'>): string => `${url} ${n}:${index}`;

const finding = (orgId: string, jobId: string, what: string): DeliveryFinding => ({
  invariant: 'I7',
  orgId,
  jobId,
  what,
});
