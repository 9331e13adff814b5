import type { Owner } from '../../core/owner.ts';
import type { JobState } from '../../core/states.ts';
import { LEASED } from '../attempts/owned-jobs.ts';
import { DEFAULT_BEAT_MS, IS_LOCK_FREE } from '../attempts/watch-workers.ts';
import { IS_LIVE, SERVES_JOB } from '../attempts/workers.ts';
import { outsideOrg } from '../driver/org-reads.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { explainLimit, type LimitFacts } from './explain-limit.ts';
import { explainTurn, type Turn } from './explain-turn.ts';

// Counts the jobs under a cap in the same way as a claim does: by live leases.
const liveText = (condition: string): string =>
  `(SELECT count(*)::int4 FROM (SELECT DISTINCT l.seq FROM (SELECT c.job_type, c.org_id, j.seq, j.queue AS job_queue FROM ${LEASED}) l WHERE ${condition}) d)`;

/** Counts the workers that claim from the queue of the job. */
const servingText = (condition: string): string => `(SELECT count(*)::int4 FROM millrace.workers w
       WHERE ${IS_LIVE} AND ${condition} AND w.queues && ARRAY[j.queue, '*'])`;

const EXPLAIN = statement(
  'explain_job',
  `SELECT j.seq, j.state, j.queue, j.job_type, j.priority, j.order_key, j.limit_id, coalesce(q.claim_order, 'fair') AS claim_order, j.run_at, j.is_held, j.worker_id, j.lease_seq, j.started_at,
     greatest(0, extract(epoch FROM j.run_at - millrace.clock())::float8 * 1000) AS run_in_ms,
     q.paused_at AS queue_paused_at, q.draining_at AS queue_draining_at, q.concurrency AS queue_cap, q.rate AS queue_rate,
     CASE WHEN q.concurrency IS NULL THEN NULL ELSE ${liveText('l.job_queue = j.queue')} END AS queue_live,
     EXISTS (SELECT FROM millrace.queue_rooms r WHERE r.queue = j.queue AND r.next_at > millrace.clock()) AS queue_paced, t.paused_at AS type_paused_at, t.concurrency AS type_cap, o.max_running AS org_cap,
     CASE WHEN t.concurrency IS NULL THEN NULL ELSE ${liveText('l.job_type = j.job_type')} END AS type_live,
     CASE WHEN o.max_running IS NULL THEN NULL ELSE ${liveText('l.org_id = j.org_id')} END AS org_live,
     ${servingText(`${SERVES_JOB} AND w.stalled_at IS NULL`)} AS workers,
     ${servingText(`${SERVES_JOB} AND w.stalled_at IS NOT NULL`)} AS stalled_workers,
     ${servingText('j.job_type = ANY (w.types)')} AS workers_of_type,
     w.name AS holder, w.host AS holder_host, extract(epoch FROM millrace.clock() - w.beat_at)::float8 * 1000 AS holder_silent_ms,
     w.id IS NULL OR w.stopped_at IS NOT NULL AS holder_stopped, ${IS_LOCK_FREE} AS holder_lock_free,
     coalesce(w.beat_ms, ${DEFAULT_BEAT_MS}) AS holder_beat_ms, extract(epoch FROM millrace.clock() - w.stalled_at)::float8 * 1000 AS holder_stalled_ms,
     (p.body->>'leaseMs')::float8 AS lease_ms, c.is_forced, c.requested_at AS cancel_requested_at,
     CASE WHEN j.is_held THEN (SELECT count(*)::int4 FROM millrace.jobs k WHERE k.org_id = j.org_id AND k.parent_seq = j.seq
        AND k.joins_parent AND k.completed_at IS NULL) ELSE 0 END AS open_children
   FROM millrace.jobs j
   JOIN millrace.policies p ON p.id = j.policy_id
   LEFT JOIN millrace.queues q ON q.name = j.queue
   LEFT JOIN millrace.job_types t ON t.name = j.job_type
   LEFT JOIN millrace.orgs o ON o.id = j.org_id
   LEFT JOIN millrace.workers w ON w.id = j.worker_id
   LEFT JOIN millrace.cancel_requests c ON c.org_id = j.org_id AND c.seq = j.seq
   WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR j.project_id = $3::uuid)`,
);

const FIND = statement(
  'explain_found_job',
  `SELECT 1 AS one FROM millrace.jobs j
   WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR j.project_id = $3::uuid)`,
);

const UNMET = statement(
  'explain_dependencies',
  `SELECT t.id, t.state FROM millrace.dependencies d
   JOIN millrace.jobs t ON t.org_id = d.org_id AND t.seq = d.depends_on_seq
   WHERE d.org_id = $1::uuid AND d.job_seq = $2::int8 AND t.state <> 'completed' ORDER BY t.seq`,
);

type Row = {
  seq: number;
  state: JobState;
  queue: string;
  job_type: string;
  priority: number;
  order_key: number;
  limit_id: number | null;
  claim_order: 'fifo' | 'fair';
  run_at: Date;
  worker_id: number | null;
  lease_seq: number;
  run_in_ms: number;
  queue_paused_at: Date | null;
  queue_draining_at: Date | null;
  queue_cap: number | null;
  queue_live: number | null;
  queue_rate: number | null;
  queue_paced: boolean;
  type_paused_at: Date | null;
  type_cap: number | null;
  org_cap: number | null;
  type_live: number | null;
  org_live: number | null;
  workers: number;
  stalled_workers: number;
  workers_of_type: number;
  holder: string | null;
  holder_host: string | null;
  holder_silent_ms: number | null;
  holder_stopped: boolean;
  holder_lock_free: boolean;
  holder_beat_ms: number;
  holder_stalled_ms: number | null;
  lease_ms: number;
  is_forced: boolean | null;
  cancel_requested_at: Date | null;
  is_held: boolean;
  open_children: number;
};

type Cap = { cap: number; live: number };

export type JobHolder = {
  workerId: number;
  name: string;
  host: string;
  leaseSeq: number;
  leaseLeftMs: number;
  /** The time since its last heartbeat, by the database's clock. */
  silentMs: number;
  /** How long the event loop of its process has been blocked; null while it runs. */
  stalledMs: number | null;
  /**
   * `responding`: it sends heartbeats. `stalled`: it does, but its event loop is blocked. `silent`: it missed several heartbeats.
   * `disconnected`: its session with the database ended. `stopped`: it was stopped or declared dead, or is unknown.
   */
  condition: 'responding' | 'stalled' | 'silent' | 'disconnected' | 'stopped';
};

export type JobFacts = {
  state: JobState;
  queue: string;
  type: string;
  runAt: Date;
  runInMs: number;
  unmetDependencies: { id: string; state: JobState }[];
  queuePausedAt: Date | null;
  /** Since when its queue accepts no new jobs. */
  queueDrainingAt: Date | null;
  queueCap: Cap | null;
  /** The starts a second that its queue allows, and whether the next one must wait. */
  queueRate: { rate: number; isUsedUp: boolean } | null;
  typePausedAt: Date | null;
  typeCap: Cap | null;
  orgCap: Cap | null;
  /** Live workers that claim this type from this queue for the org of the job. */
  servingWorkers: number;
  /** Workers like these whose event loop is blocked. */
  stalledWorkers: number;
  /** Live workers claim this type from this queue, but for other orgs only. */
  servedForOthersOnly: boolean;
  /** Null if the job is not ready. Counting stops at `MAX_COUNTED_AHEAD`. */
  aheadInLine: number | null;
  /** What its org has of the slots for this job. Null if the job is not ready. */
  share: Omit<Turn, 'ahead'> | null;
  holder: JobHolder | null;
  cancelRequest: { requestedAt: Date; force: boolean } | null;
  heldForChildren: number | null;
  /** Null unless the job waits for a grant of its limit. */
  limit: LimitFacts | null;
};

/** Returns everything that can keep a job from running, or null if the owner has no such job. */
export async function explainJob(db: Queryable, { orgId, projectId }: Owner, id: string): Promise<JobFacts | null> {
  // The explanation counts jobs of all orgs. So the job itself is first read as a job of this org.
  if ((await run(db, FIND, [orgId, id, projectId])).length === 0) return null;
  const everywhere = outsideOrg(db);
  const [row] = await run<Row>(everywhere, EXPLAIN, [orgId, id, projectId]);
  if (row === undefined) return null;
  const waits = row.state === 'pending';
  const unmet = waits ? await run<{ id: string; state: JobState }>(db, UNMET, [orgId, row.seq]) : [];
  const limit = await limitOf(db, orgId, row);
  const { ahead: aheadInLine, ...share } = (limit === null ? await turnOf(everywhere, orgId, row) : null) ?? { ahead: null };
  return {
    state: row.state,
    queue: row.queue,
    type: row.job_type,
    runAt: new Date(row.run_at),
    runInMs: row.run_in_ms,
    unmetDependencies: unmet,
    queuePausedAt: row.queue_paused_at,
    queueDrainingAt: row.queue_draining_at,
    queueCap: capOf(row.queue_cap, row.queue_live),
    queueRate: row.queue_rate === null ? null : { rate: row.queue_rate, isUsedUp: row.queue_paced },
    typePausedAt: row.type_paused_at,
    typeCap: capOf(row.type_cap, row.type_live),
    orgCap: capOf(row.org_cap, row.org_live),
    servingWorkers: row.workers,
    stalledWorkers: row.stalled_workers,
    servedForOthersOnly: row.workers + row.stalled_workers === 0 && row.workers_of_type > 0,
    aheadInLine,
    share: 'slots' in share ? share : null,
    holder: holderOf(row),
    cancelRequest: row.cancel_requested_at === null ? null : { requestedAt: row.cancel_requested_at, force: row.is_forced === true },
    heldForChildren: row.is_held ? row.open_children : null,
    limit,
  };
}

async function limitOf(db: Queryable, orgId: string, row: Row): Promise<LimitFacts | null> {
  if (row.limit_id === null || row.state !== 'scheduled' || row.worker_id !== null) return null;
  return explainLimit(db, { orgId, seq: row.seq });
}

async function turnOf(db: Queryable, orgId: string, row: Row): Promise<Turn | null> {
  if (row.state !== 'scheduled' || row.worker_id !== null) return null;
  const { queue, job_type: type, priority, order_key: orderKey, claim_order } = row;
  return explainTurn(db, { orgId, queue, type, priority, orderKey, isFair: claim_order === 'fair' });
}

const capOf = (cap: number | null, live: number | null): Cap | null => (cap === null ? null : { cap, live: live ?? 0 });

/** A worker is reported as silent after this many missed heartbeats, but not before the minimum time. */
const MISSED_BEATS = 3;
const MIN_SILENCE_MS = 3_000;

function conditionOf(row: Row): JobHolder['condition'] {
  if (row.holder_stopped) return 'stopped';
  if (row.holder_lock_free) return 'disconnected';
  const longestMs = Math.max(MIN_SILENCE_MS, MISSED_BEATS * row.holder_beat_ms);
  if ((row.holder_silent_ms ?? 0) > longestMs) return 'silent';
  return row.holder_stalled_ms === null ? 'responding' : 'stalled';
}

function holderOf(row: Row): JobHolder | null {
  if (row.worker_id === null) return null;
  return {
    workerId: Number(row.worker_id),
    name: row.holder ?? '',
    host: row.holder_host ?? '',
    leaseSeq: Number(row.lease_seq),
    leaseLeftMs: Math.max(0, row.lease_ms - (row.holder_silent_ms ?? row.lease_ms)),
    silentMs: Math.max(0, row.holder_silent_ms ?? 0),
    stalledMs: row.holder_stalled_ms === null ? null : Math.max(0, row.holder_stalled_ms),
    condition: conditionOf(row),
  };
}
