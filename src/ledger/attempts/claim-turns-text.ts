// SQL that claims jobs in turns between orgs, within the caps of types and orgs. `claim-text.ts` has the SQL for claims in one line. That one
// is cheaper, and gives the same result while a single org waits.
import { IS_OPEN, LEFT, SPARE_RUNS } from './claim-text.ts';

// The parameters from 10 on; the first nine are the same in every claim.
const P = {
  cursors: 10,
  inTurn: 11,
  rooms: 12,
  orgs: 13,
  owned: 14,
  lastTurns: 15,
  orgRooms: 16,
  leftOut: 17,
  mostOfOrg: 18,
  ring: 19,
  served: 20,
  queueRooms: 21,
} as const;

/** A claim takes this many jobs of an org, or four times its equal share, if that is more. This bounds how many runs it reads. */
const FEW_OF_ORG = 8;

// Two indexes begin with queue, type and priority. With a plan made while the table was small, PostgreSQL read all jobs of a range through
// the wrong one and sorted them: 2.6 s for a million jobs. That index does not fit a condition on the lane.
const laneOf = (row: string): string => `(${row}.queue || E'\\n' || ${row}.job_type)`;

/** Through the index by org. */
const byOrg = (range: string): string => `${laneOf('r')} = ${laneOf(range)} AND r.priority = ${range}.priority`;
/** Through the index in the order of claims. */
const bySubmission = (range: string): string =>
  `r.queue = ${range}.queue AND r.job_type = ${range}.job_type AND r.priority = ${range}.priority`;

/** Whether the claim counts the jobs of each queue. That costs one more sort, so only claims from queues with caps or rates do it. */
type Bounds = { byQueue: boolean };

/** SQL for claims that count the jobs of each queue. */
const ifByQueue = ({ byQueue }: Bounds, text: string): string => (byQueue ? text : '');

// `room` is what the cap of the type leaves. `served` are the orgs for which the worker serves the type; null for all.
const rangesText = (bounds: Bounds): string => `
  SELECT l.queue, l.job_type, l.priority, l.floor, l.rank, l.cursor, l.in_turn, l.room, l.served::uuid[] AS served, clock_timestamp() AS read_at${ifByQueue(bounds, ', l.queue_room')}
  FROM unnest($4::text[], $5::text[], $6::int2[], $7::int8[], $9::int2[], $${P.cursors}::uuid[], $${P.inTurn}::bool[], $${P.rooms}::int4[],
      $${P.served}::text[]${ifByQueue(bounds, `, $${P.queueRooms}::int4[]`)}) AS l(queue, job_type, priority, floor, rank, cursor, in_turn, room, served${ifByQueue(bounds, ', queue_room')}) WHERE l.room > 0 AND ${IS_OPEN}`;

/** Finds one org after the other, each with one look into the index, however many jobs they have. */
const orgsText = (name: string, first: string, within: string): string => `${name}(org_id) AS (
      (SELECT r.org_id FROM millrace.ready r WHERE ${byOrg('l')} AND ${first} ORDER BY r.org_id LIMIT 1)
      UNION ALL
      SELECT (SELECT r.org_id FROM millrace.ready r WHERE ${byOrg('l')} AND r.org_id > p.org_id${within} ORDER BY r.org_id LIMIT 1)
      FROM ${name} p WHERE p.org_id IS NOT NULL)`;

// Each org that the worker names is looked up, instead of walking past all others.
const SERVED = `(SELECT s.org_id FROM unnest(l.served) AS s(org_id)
      WHERE EXISTS (SELECT FROM millrace.ready r WHERE ${byOrg('l')} AND r.org_id = s.org_id) ORDER BY s.org_id <= l.cursor, s.org_id)`;

// The orgs of each range as a ring, from the one after the cursor on. An org without room is only left out after it was found, because a
// condition on the index would read all its jobs.
const SEEN = `
  SELECT l.*, o.org_id FROM ranges l CROSS JOIN LATERAL (
    WITH RECURSIVE ${orgsText('ahead', 'l.served IS NULL AND r.org_id > l.cursor', '')},
    ${orgsText('behind', 'l.served IS NULL AND r.org_id <= l.cursor', ' AND r.org_id <= l.cursor')}
    SELECT org_id FROM (SELECT org_id FROM ahead UNION ALL SELECT org_id FROM behind UNION ALL ${SERVED}) ring
    WHERE org_id IS NOT NULL LIMIT $${P.ring}::int4
  ) o WHERE l.in_turn AND o.org_id <> ALL ($${P.leftOut}::uuid[])`;

// `took_ms` is how long it took to find the orgs.
const SHARE = `
  SELECT count(DISTINCT org_id)::int4 AS orgs, extract(epoch FROM clock_timestamp() - min(read_at))::float8 * 1000 AS took_ms,
    least($${P.mostOfOrg}::int4, greatest(${FEW_OF_ORG}, 4 * $2::int4 / greatest(1, count(DISTINCT org_id))))::int4 AS jobs FROM seen`;

// A queue in the order of submission is a single party without a name, whose jobs are not counted.
const lineText = (bounds: Bounds): string => `
  SELECT c.*, s.job_type, s.priority, s.rank, s.room, s.org_id AS party${ifByQueue(bounds, ', s.queue, s.queue_room')} FROM seen s CROSS JOIN LATERAL (
    SELECT r.ctid AS tid, r.org_id, r.order_key, ${LEFT} AS jobs FROM millrace.ready r WHERE ${byOrg('s')} AND r.org_id = s.org_id
    ORDER BY r.order_key LIMIT (SELECT least(jobs, $8::int4) FROM share)) c
  UNION ALL
  SELECT c.*, l.job_type, l.priority, l.rank, l.room, NULL${ifByQueue(bounds, ', l.queue, l.queue_room')} FROM ranges l CROSS JOIN LATERAL (
    SELECT r.ctid AS tid, r.org_id, r.order_key, ${LEFT} AS jobs FROM millrace.ready r WHERE ${bySubmission('l')} AND r.order_key >= l.floor
      AND r.org_id <> ALL ($${P.leftOut}::uuid[]) AND (l.served IS NULL OR r.org_id = ANY (l.served))
    ORDER BY r.order_key LIMIT $8::int4) c WHERE NOT l.in_turn`;

/** How many jobs the party has in the runs before this one. */
const BEFORE = `coalesce(sum(jobs) OVER (PARTITION BY priority, rank, party ORDER BY order_key
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)`;
const MOST = 'CASE WHEN party IS NULL THEN $2::int4 ELSE (SELECT jobs FROM share) END';

const OF_ORG = 'PARTITION BY c.org_id ORDER BY priority, rank, order_key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING';
const FIRST_TURN = 'priority, rank, owned + before, last_turn, order_key';

const IN_QUEUE = ' AND of_queue <= queue_room';
const ofQueueText = (bounds: Bounds, order: string): string =>
  ifByQueue(bounds, `, row_number() OVER (PARTITION BY queue ORDER BY ${order}) AS of_queue`);

// Every run in front of a chosen job has a chosen job too, or no room. So only the first `limit` runs with room are locked, and a few spare
// ones if other claims hold the first.
const candidatesText = (bounds: Bounds): string => `
  SELECT *, place <= $2::int4 AS is_needed FROM (
    SELECT *, row_number() OVER (ORDER BY ${FIRST_TURN}) AS place FROM (
      SELECT *, row_number() OVER (PARTITION BY job_type ORDER BY ${FIRST_TURN}) AS of_type${ofQueueText(bounds, FIRST_TURN)} FROM (
        SELECT c.*, ${BEFORE} AS before, coalesce(sum(jobs) OVER (${OF_ORG}), 0) AS before_of_org, h.room AS org_room,
          CASE WHEN party IS NULL THEN 0 ELSE coalesce(h.owned, 0) END AS owned,
          CASE WHEN party IS NULL THEN 0 ELSE coalesce(h.last_turn, 0) END AS last_turn FROM line c
        LEFT JOIN unnest($${P.orgs}::uuid[], $${P.owned}::int4[], $${P.lastTurns}::int8[], $${P.orgRooms}::int4[])
          AS h(org_id, owned, last_turn, room) ON h.org_id = c.org_id
      ) counted WHERE before < ${MOST} AND before_of_org < least(org_room, $${P.mostOfOrg}::int4)
    ) within WHERE of_type <= room${ifByQueue(bounds, IN_QUEUE)}
  ) placed WHERE place <= $2::int4 + ${SPARE_RUNS} ORDER BY place`;

const pickedText = (bounds: Bounds): string => `
  SELECT r.*, c.rank, c.room${ifByQueue(bounds, ', c.queue_room')}, c.org_room, c.owned, c.last_turn, c.party, ${LEFT} AS jobs FROM candidates c
  CROSS JOIN LATERAL (SELECT ctid AS tid, * FROM millrace.ready WHERE ctid = c.tid FOR UPDATE SKIP LOCKED) r
  LIMIT (SELECT count(*) FROM candidates WHERE is_needed)`;

// The turn of an org's next job is the number of jobs that the worker already has of it. So a free slot goes to the org with the fewest, then
// to the one that was served longest ago. Orgs that submit evenly are served in the order of submission.
const TURN = 'priority, rank, turn, last_turn, order_key, seq';

const chosenText = (bounds: Bounds): string => `
  SELECT tid, org_id, queue, job_type, priority, order_key, seq, place FROM (
    SELECT *, row_number() OVER (ORDER BY ${TURN}) AS place FROM (
      SELECT *, row_number() OVER (PARTITION BY job_type ORDER BY ${TURN}) AS of_type${ofQueueText(bounds, TURN)} FROM (
        SELECT *, row_number() OVER (PARTITION BY org_id ORDER BY ${TURN}) AS of_org FROM (
          SELECT p.tid, p.org_id, p.queue, p.job_type, p.priority, p.order_key, p.rank, p.room${ifByQueue(bounds, ', p.queue_room')}, p.org_room, p.last_turn, u.seq,
            p.owned + p.before + u.n AS turn FROM (SELECT *, ${BEFORE} AS before FROM picked) p
          CROSS JOIN LATERAL unnest(p.seqs[p.taken + 1 : p.taken + least(p.jobs, ${MOST} - p.before)::int4]) WITH ORDINALITY AS u(seq, n)
        ) jobs
      ) numbered WHERE of_org <= least(org_room, $${P.mostOfOrg}::int4)
    ) within WHERE of_type <= room${ifByQueue(bounds, IN_QUEUE)}
  ) placed WHERE place <= $2::int4`;

/** Everything up to `leased`, whose jobs are in the order in which they should run. */
const leasedText = (bounds: Bounds): string => `ranges AS MATERIALIZED (${rangesText(bounds)}
), seen AS MATERIALIZED (${SEEN}
), share AS MATERIALIZED (${SHARE}
), line AS (${lineText(bounds)}
), candidates AS MATERIALIZED (${candidatesText(bounds)}
), picked AS MATERIALIZED (${pickedText(bounds)}
), chosen AS MATERIALIZED (${chosenText(bounds)}
), cut AS MATERIALIZED (
  SELECT tid, count(*)::int4 AS jobs FROM chosen GROUP BY tid
), spent AS (
  DELETE FROM millrace.ready r USING cut c WHERE r.ctid = c.tid AND r.taken + c.jobs = cardinality(r.seqs)
), shortened AS (
  UPDATE millrace.ready r SET taken = r.taken + c.jobs, order_key = r.seqs[r.taken + c.jobs + 1] FROM cut c
  WHERE r.ctid = c.tid AND r.taken + c.jobs < cardinality(r.seqs)
), leased AS MATERIALIZED (
  SELECT org_id, queue, job_type, priority, order_key, seq, nextval('millrace.lease_seq') AS lease_seq FROM chosen ORDER BY place
)`;

export const LEASED_IN_TURN = leasedText({ byQueue: false });

/** Also counts the jobs of each queue. */
export const LEASED_WITHIN_QUEUES = leasedText({ byQueue: true });
