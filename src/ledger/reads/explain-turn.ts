import { LEASED } from '../attempts/owned-jobs.ts';
import { IS_LIVE } from '../attempts/workers.ts';
import { type NamedStatement, namedStatement, type Queryable, runNamed } from '../driver/statement.ts';

/** Counting stops here: the report then says that there are more. */
export const MAX_COUNTED_AHEAD = 10_001;
const MAX_COUNTED_ORGS = 1_000;

/** A ready job, and how many slots and jobs there are for it. */
export type Turn = {
  /** Earlier jobs that may start first. In a fair queue, each other org has one turn more than this org has jobs before this one. */
  ahead: number;
  /** How many other orgs wait for the same slots. */
  waitingOrgs: number;
  /** Slots of the live workers that serve the job, how many of them run jobs of its org, and how many are free for it. */
  slots: number;
  ownSlots: number;
  openSlots: number;
  /** Free slots that the workers keep for orgs of which they run no job. */
  reservedSlots: number;
};

type Params = {
  orgId: string;
  queue: string;
  type: string;
  priority: number;
  orderKey: number;
  isFair: boolean;
  max: number;
  maxOrgs: number;
};

const RUNS = `millrace.ready r CROSS JOIN LATERAL unnest(r.seqs[r.taken + 1 :]) AS u(seq)`;
const IN_LANE = `(r.queue || E'\\n' || r.job_type) = $queue::text || E'\\n' || $type::text AND r.priority = $priority::int2`;
const IS_BEFORE = `r.order_key <= $orderKey::int8 AND CASE WHEN cardinality(r.seqs) = 1 THEN r.order_key ELSE u.seq END < $orderKey::int8`;

// A worker is open to a job if it has free slots beyond its reserve, or any free slot and no job of the org.
const EXPLAIN: NamedStatement<Params, Turn> = namedStatement(
  'explain_turn',
  `WITH RECURSIVE orgs(org_id, n) AS (
     (SELECT r.org_id, 1 FROM millrace.ready r WHERE ${IN_LANE} ORDER BY r.org_id LIMIT 1)
     UNION ALL
     SELECT (SELECT r.org_id FROM millrace.ready r WHERE ${IN_LANE} AND r.org_id > o.org_id ORDER BY r.org_id LIMIT 1), o.n + 1
     FROM orgs o WHERE o.org_id IS NOT NULL AND o.n <= $maxOrgs::int4
   ), others AS MATERIALIZED (
     SELECT org_id FROM orgs WHERE org_id <> $orgId::uuid
   ), own AS MATERIALIZED (
     SELECT count(*)::int4 AS jobs FROM (SELECT FROM ${RUNS} WHERE ${IN_LANE} AND r.org_id = $orgId::uuid AND ${IS_BEFORE} LIMIT $max::int4) j
   ), urgent AS MATERIALIZED (
     SELECT count(*)::int4 AS jobs FROM (SELECT FROM ${RUNS} WHERE r.queue = $queue::text AND r.job_type = $type::text
       AND r.priority < $priority::int2 LIMIT $max::int4) j
   ), in_turn AS MATERIALIZED (
     SELECT count(*)::int4 AS jobs FROM (SELECT FROM others o CROSS JOIN LATERAL (
       SELECT FROM ${RUNS} WHERE ${IN_LANE} AND r.org_id = o.org_id AND ${IS_BEFORE} LIMIT (SELECT jobs FROM own) + 1) j LIMIT $max::int4) j
   ), in_line AS MATERIALIZED (
     SELECT count(*)::int4 AS jobs FROM (SELECT FROM ${RUNS} WHERE r.queue = $queue::text AND r.job_type = $type::text
       AND r.priority = $priority::int2 AND ${IS_BEFORE} LIMIT $max::int4) j
   ), serving AS MATERIALIZED (
     SELECT w.slots, w.slots - l.used AS free, w.reserved_slots, l.own FROM millrace.workers w CROSS JOIN LATERAL (
       SELECT count(DISTINCT j.id) AS used, count(DISTINCT j.id) FILTER (WHERE j.org_id = $orgId::uuid) AS own
       FROM ${LEASED} WHERE c.worker_id = w.id) l
     WHERE ${IS_LIVE} AND $type::text = ANY (w.types) AND w.queues && ARRAY[$queue::text, '*']
       AND (w.orgs_of_types->$type::text IS NULL OR w.orgs_of_types->$type::text ? $orgId::text)
   )
   SELECT least($max::int4, urgent.jobs + CASE WHEN $isFair::boolean THEN own.jobs + in_turn.jobs ELSE in_line.jobs END) AS ahead,
     (SELECT count(*)::int4 FROM others) AS "waitingOrgs", coalesce(s.slots, 0)::int4 AS slots, coalesce(s.own, 0)::int4 AS "ownSlots",
     coalesce(s.open, 0)::int4 AS "openSlots", coalesce(s.reserved, 0)::int4 AS "reservedSlots"
   FROM urgent, own, in_turn, in_line, (
     SELECT sum(slots) AS slots, sum(own) AS own, sum(greatest(0, CASE WHEN own = 0 THEN free ELSE free - reserved_slots END)) AS open,
       sum(CASE WHEN own = 0 THEN 0 ELSE greatest(0, least(free, reserved_slots)) END) AS reserved FROM serving) s`,
);

/** Returns what a ready job waits for: the jobs before it and the slots that its org may use. */
export async function explainTurn(db: Queryable, params: Omit<Params, 'max' | 'maxOrgs'>): Promise<Turn> {
  const [turn] = await runNamed(db, EXPLAIN, { ...params, max: MAX_COUNTED_AHEAD, maxOrgs: MAX_COUNTED_ORGS });
  return turn as Turn;
}
