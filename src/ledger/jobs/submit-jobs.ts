import type { JobState } from '../../core/states.ts';
import type { NewJob } from '../../core/submission.ts';
import { int2Array, int4Array, int8Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { isContended, isLockedOut, isOurs, type Queryable, run, type Statement } from '../driver/statement.ts';
import { type Flush, flushVariants } from '../history/flush-log.ts';
import { RECORD, RECORD_ID } from '../history/record-events.ts';
import { limitedText, RUN_OF_NEIGHBOURS } from '../tokens.ts';
import { keyScopeText } from './idempotency-keys.ts';
import type { JobToWrite, Placement } from './job-to-write.ts';
import { heldText, type KeyMode, patienceText } from './key-buckets.ts';
import { areAlike, type HowToSubmit, submitAlike } from './submit-alike.ts';
import { judgedText, ruleOf, type UniqueOutcome, uniqueHeldText } from './unique-keys.ts';

export type Written =
  | {
      kind: 'accepted';
      id: string;
      state: JobState;
      createdAt: Date;
      scheduledFor: Date | null;
      /** The waiting job with the same unique key that was cancelled for this one. */
      replacedId?: string;
    }
  | { kind: 'duplicate'; existingId: string; sameRequest: boolean }
  /** A job with the same unique key exists, and nothing was written. `updated`: it got the new payload. */
  | { kind: 'skipped' | 'updated'; existingId: string };

/** `held`: the job was not written, because another transaction may be about to commit its key. */
export type Attempted = Written | { kind: 'held' };

// Of two callers with the same key, the second waits here for the first and then reads its row. DO UPDATE sees that row, although the
// snapshot of the statement does not. The keys are sorted, so that two batches cannot deadlock.
const keysText = (scope: string) => `, keyed AS (
  INSERT INTO millrace.idempotency_keys AS k (org_id, scope, key, job_id, fingerprint, expires_at)
  SELECT DISTINCT ON (org_id, scope, key) org_id, ${scope} AS scope, key, id, extra->>'fingerprint',
         at + (extra->>'key_window_ms')::float8 * interval '1 ms'
  FROM input i WHERE key IS NOT NULL AND NOT is_held ORDER BY org_id, scope, key, ord
  ON CONFLICT (org_id, scope, key) DO UPDATE SET
    job_id      = CASE WHEN k.expires_at <= millrace.clock() THEN excluded.job_id ELSE k.job_id END,
    fingerprint = CASE WHEN k.expires_at <= millrace.clock() THEN excluded.fingerprint ELSE k.fingerprint END,
    expires_at  = CASE WHEN k.expires_at <= millrace.clock() THEN excluded.expires_at ELSE k.expires_at END
  RETURNING org_id, scope, key, job_id, fingerprint
), fresh AS MATERIALIZED (
  SELECT i.*, k.job_id AS existing_id, k.fingerprint AS existing_fingerprint FROM input i
  LEFT JOIN keyed k ON k.org_id = i.org_id AND k.scope = ${scope} AND k.key = i.key
)`;

/** The columns of the envelope, which only some jobs have. */
const ENVELOPE = {
  input: ', $12::text[], $13::text[], $14::uuid[], $15::text[]',
  columns: ', request_id, category, project_id, traceparent',
  scope: keyScopeText('i.job_type', 'i.project_id'),
};
const NO_ENVELOPE: typeof ENVELOPE = { input: '', columns: '', scope: 'i.job_type' };

type Variant = {
  keys: KeyMode | null;
  enveloped: boolean;
  limited: boolean;
  /** Some jobs have a unique key. Such a statement has all the other parts, so that there are few variants. */
  isUnique?: boolean;
};

function submitText({ keys, enveloped, limited, isUnique = false }: Variant): string {
  const envelope = enveloped ? ENVELOPE : NO_ENVELOPE;
  const isWritten = 'NOT is_held AND (existing_id IS NULL OR existing_id = id)';
  const isNew = isUnique ? ` AND coalesce(outcome IN ('new', 'replaced'), true)` : '';
  const results = isUnique ? 'judged' : 'fresh';
  const source = keys === null ? 'input' : `(SELECT * FROM ${results} WHERE ${isWritten}${isNew})`;
  return `
WITH ${RECORD}, input AS MATERIALIZED (
  SELECT i.*, nextval('millrace.job_seq') AS seq, millrace.clock() AS at,
         coalesce((extra->>'run_at')::timestamptz,
                  millrace.clock() + (extra->>'run_after_ms')::float8 * interval '1 ms', millrace.clock()) AS run_at
         ${keys === null ? '' : heldText(keys, envelope.scope, isUnique ? uniqueHeldText(keys) : null)}
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int2[], $6::int4[], $7::int2[], $8::int8[],
              $9::json[], $10::text[], $11::json[]${envelope.input}) WITH ORDINALITY
    AS i(id, org_id, queue, job_type, priority, policy_id, max_attempts, lifetime_ms, payload, key, extra${envelope.columns}, ord)
  ${keys === null ? '' : patienceText(keys)}
)${keys === null ? '' : keysText(envelope.scope)}${keys !== null && isUnique ? judgedText(keys) : ''}
, inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, lifetime_deadline, order_key,
    policy_id, state, priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type, idempotency_key,
    payload, parent_seq, depth, joins_parent, dependency_type, correlation_id, callback_url, actor, tags, payload_bytes, planned_at${limited ? ', limit_id' : ''}${envelope.columns})
  SELECT i.seq, i.org_id, i.id, i.at, i.at, i.run_at,
    CASE WHEN i.run_at <= i.at AND extra->>'waits' IS NULL THEN i.at END,
    i.at + i.lifetime_ms * interval '1 ms', i.seq, i.policy_id,
    (CASE WHEN extra->>'waits' IS NOT NULL THEN 'pending' WHEN i.run_at > i.at THEN 'delayed' ELSE 'scheduled' END)::millrace.job_state,
    i.priority, coalesce((extra->>'requested_priority')::int2, i.priority), i.max_attempts, 1, ARRAY[${RECORD_ID}], i.queue, i.job_type, i.key,
    i.payload, (extra->>'parent_seq')::int8, coalesce((extra->>'depth')::int2, 0),
    coalesce((extra->>'joins_parent')::boolean, false), extra->>'dependency_type', extra->>'correlation_id',
    extra->>'callback_url', extra->>'actor', (extra->>'tags')::jsonb, decode(extra->>'payload_bytes', 'base64'), (extra->>'planned_at')::timestamptz${limited ? `, (extra->>'limit_id')::int8` : ''}${envelope.columns}
  FROM ${source} i
  RETURNING seq, org_id, state, priority, order_key, run_at, lifetime_deadline, queue, job_type, actor, tags IS NOT NULL AS is_tagged${limited ? ', limit_id' : ''}
), made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT min(order_key), lifetime_deadline, org_id, priority, queue, job_type, array_agg(seq ORDER BY seq) FROM inserted
  WHERE state = 'scheduled'${limited ? ' AND limit_id IS NULL' : ''} GROUP BY org_id, queue, job_type, priority, lifetime_deadline, ${isUnique ? 'seq' : RUN_OF_NEIGHBOURS}
)${limited ? `, ${limitedText(`inserted WHERE state = 'scheduled' AND limit_id IS NOT NULL`)}` : ''}, timed AS (
  INSERT INTO millrace.timers (run_at, dies_at, seq, org_id)
  SELECT run_at, lifetime_deadline, seq, org_id FROM inserted WHERE state = 'delayed'
), held_back AS (
  INSERT INTO millrace.waiting (dies_at, seq, org_id)
  SELECT lifetime_deadline, seq, org_id FROM inserted WHERE state = 'pending'
), announced AS (
  INSERT INTO millrace.releases (org_id, seq, is_new) SELECT org_id, seq, true FROM inserted WHERE state = 'pending'
), depended AS (
  INSERT INTO millrace.dependencies (org_id, job_seq, depends_on_seq)
  SELECT i.org_id, i.seq, d.value::int8 FROM ${source} i CROSS JOIN LATERAL json_array_elements_text(i.extra->'depends_on') d
), recorded AS (
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, queue, reason, actor, seqs)
  SELECT ${RECORD_ID}, millrace.clock(), org_id, CASE WHEN state = 'pending' THEN NULL ELSE 'pending'::millrace.job_state END, state, priority,
    is_tagged, job_type, queue, 'submitted', actor, array_agg(seq) FROM inserted GROUP BY org_id, state, priority, is_tagged, job_type, queue, actor
)
SELECT 0 AS ord, extract(epoch FROM millrace.clock())::float8 * 1000 AS at_ms, NULL::float8 AS run_at_ms, false AS waits,
       NULL::uuid AS existing_id, false AS same, false AS is_held${isUnique ? ', NULL AS outcome, NULL::uuid AS unique_job' : ''}
UNION ALL
SELECT ord::int4, NULL, extract(epoch FROM run_at)::float8 * 1000, extra->>'waits' IS NOT NULL, ${
    keys === null
      ? 'NULL, false, false FROM input'
      : `existing_id, existing_fingerprint = extra->>'fingerprint', is_held${isUnique ? ', outcome, unique_job' : ''} FROM ${results}`
  }
WHERE extra IS NOT NULL`;
}

const KEYED = { announce: '_announced', leave_held: '_keyed' } as const satisfies Record<KeyMode, string>;

const nameOf = ({ keys, enveloped, limited, isUnique = false }: Variant): string => {
  const others = isUnique ? '_unique' : `${enveloped ? '_enveloped' : ''}${limited ? '_limited' : ''}`;
  return `submit${keys === null ? '' : KEYED[keys]}${others}_jobs`;
};

const VARIANTS: readonly Variant[] = [
  ...([null, 'announce', 'leave_held'] as const).flatMap((keys) =>
    [false, true].flatMap((enveloped) => [false, true].map((limited) => ({ keys, enveloped, limited }))),
  ),
  ...(['announce', 'leave_held'] as const).map((keys) => ({ keys, enveloped: true, limited: true, isUnique: true })),
];

const STATEMENTS: ReadonlyMap<string, Record<Flush, Statement>> = new Map(
  VARIANTS.map((variant) => [nameOf(variant), flushVariants(nameOf(variant), submitText(variant))] as const),
);

type Row = {
  ord: number;
  at_ms: number | null;
  run_at_ms: number | null;
  waits: boolean;
  existing_id: string | null;
  same: boolean;
  is_held: boolean;
  /** Only of statements for unique jobs. Null for a job without a unique key. */
  outcome?: UniqueOutcome | null;
  unique_job?: string | null;
};

/**
 * Writes jobs, their first tokens, events and keys in one statement. Returns one result for each job, in order. Use it
 * inside a transaction: it announces its keys, and waits for transactions that hold them.
 */
export const submitJobs = (db: Queryable, jobs: readonly JobToWrite[]): Promise<Written[]> =>
  submit(db, jobs, 'announce', FLUSHED) as Promise<Written[]>;

const FLUSHED: HowToSubmit = { flush: 'flushed' };

/** Like `submitJobs`, but for jobs of many callers. It skips jobs whose key is held, and must commit immediately. */
export async function submitShared(db: Queryable, jobs: readonly JobToWrite[]): Promise<Attempted[]> {
  try {
    return await submit(db, jobs, 'leave_held', FLUSHED);
  } catch (error) {
    if (!isOurs(db) || !isLockedOut(error) || !jobs.some(isKeyed)) throw error;
    // A transaction holds a key that it did not announce. It may be any of these keys, so all keyed jobs are reported as held.
    const others = jobs.filter((entry) => !isKeyed(entry));
    const written = others.length === 0 ? [] : await submitJobs(db, others);
    return jobs.map((entry) => (isKeyed(entry) ? HELD : (written.shift() as Written)));
  }
}

/**
 * Like `submitShared`, but without a flush of the log. The caller sends `flushLog` directly after it, without waiting for the result. Null: another
 * transaction holds a lock, and no job was written.
 */
export async function submitUnflushed(db: Queryable, jobs: readonly JobToWrite[]): Promise<Attempted[] | null> {
  try {
    return await submit(db, jobs, 'leave_held', { flush: 'unflushed', maxTries: 1 });
  } catch (error) {
    if (isContended(error)) return null;
    throw error;
  }
}

const HELD: Attempted = Object.freeze({ kind: 'held' });

/** Whether a job has an idempotency key or a unique key, so that another transaction may hold it. */
export const isKeyed = ({ job }: JobToWrite): boolean => job.idempotencyKey !== null || job.unique !== undefined;

async function submit(db: Queryable, jobs: readonly JobToWrite[], keys: KeyMode, how: HowToSubmit): Promise<Attempted[]> {
  if (areAlike(jobs)) return acceptedAt(jobs, await submitAlike(db, jobs, how));
  const extras = jobs.map(extraOf);
  const isUnique = jobs.some(({ job }) => job.unique !== undefined);
  const enveloped = isUnique || jobs.some((entry) => entry.job.envelope !== null);
  const limited = isUnique || jobs.some((entry) => entry.limitId !== undefined);
  const variant = { keys: jobs.some(isKeyed) ? keys : null, enveloped, limited, isUnique };
  const texts = STATEMENTS.get(nameOf(variant)) as Record<Flush, Statement>;
  const values = [...commonParameters(jobs), jsonArray(extras)];
  if (enveloped) values.push(...envelopeParameters(jobs));
  const rows = await run<Row>(db, texts[how.flush], values, { maxTries: how.maxTries });
  const atMs = Number(rows[0]?.at_ms);
  const createdAt = new Date(atMs);
  const attempted: Attempted[] = acceptedAt(jobs, atMs);
  for (let index = 1; index < rows.length; index++) {
    const row = rows[index] as Row;
    const entry = jobs[row.ord - 1] as JobToWrite;
    attempted[row.ord - 1] = row.is_held || row.outcome === 'held' ? HELD : writtenOf(entry, row, { atMs, createdAt });
  }
  return attempted;
}

function acceptedAt(jobs: readonly JobToWrite[], atMs: number): Written[] {
  const at = new Date(atMs);
  return jobs.map(({ id }) => ({ kind: 'accepted', id, state: 'scheduled', createdAt: at, scheduledFor: at }));
}

function writtenOf(entry: JobToWrite, row: Row, { atMs, createdAt }: { atMs: number; createdAt: Date }): Written {
  if (row.existing_id !== null && row.existing_id !== entry.id) {
    return { kind: 'duplicate', existingId: row.existing_id, sameRequest: row.same };
  }
  const { outcome } = row;
  const uniqueJob = row.unique_job ?? entry.id;
  if (outcome === 'skipped' || outcome === 'updated') return { kind: outcome, existingId: uniqueJob };
  const runAtMs = Number(row.run_at_ms);
  const state: JobState = row.waits ? 'pending' : runAtMs > atMs ? 'delayed' : 'scheduled';
  const accepted = { kind: 'accepted', id: entry.id, state, createdAt, scheduledFor: row.waits ? null : new Date(runAtMs) } as const;
  return outcome === 'replaced' ? { ...accepted, replacedId: uniqueJob } : accepted;
}

function commonParameters(jobs: readonly JobToWrite[]): Buffer[] {
  return [
    uuidArray(jobs.map((entry) => entry.id)),
    uuidArray(jobs.map((entry) => entry.orgId)),
    textArray(jobs.map((entry) => entry.job.queue)),
    textArray(jobs.map((entry) => entry.job.type)),
    int2Array(jobs.map((entry) => entry.placement?.priority ?? entry.job.priority)),
    int4Array(jobs.map((entry) => entry.policyId)),
    int2Array(jobs.map((entry) => entry.job.policy.maxAttempts)),
    int8Array(jobs.map((entry) => entry.job.policy.lifetimeMs)),
    jsonArray(jobs.map((entry) => (entry.job.payload.kind === 'json' ? entry.job.payload.text : null))),
    textArray(jobs.map((entry) => entry.job.idempotencyKey)),
  ];
}

function envelopeParameters(jobs: readonly JobToWrite[]): Buffer[] {
  return [
    textArray(jobs.map(({ job }) => job.envelope?.requestId ?? null)),
    textArray(jobs.map(({ job }) => job.envelope?.category ?? null)),
    uuidArray(jobs.map(({ job }) => job.envelope?.projectId ?? null)),
    textArray(jobs.map(({ job }) => job.envelope?.traceparent ?? null)),
  ];
}

/** The rare members of a job as one JSON column. A plain job sends null, and the statement skips it. */
function extraOf({ job, actor, placement, limitId, plannedAt }: JobToWrite): string | null {
  const extra: Record<string, unknown> = {};
  if (job.runAt !== null) extra.run_at = job.runAt.toISOString();
  if (job.runAfterMs !== null) extra.run_after_ms = job.runAfterMs;
  if (job.idempotencyKey !== null) {
    extra.fingerprint = job.fingerprint;
    extra.key_window_ms = job.policy.keyWindowMs;
  }
  if (job.correlationId !== null) extra.correlation_id = job.correlationId;
  if (job.callbackUrl !== null) extra.callback_url = job.callbackUrl;
  if (job.tags !== null) extra.tags = JSON.stringify(job.tags);
  if (actor !== null) extra.actor = actor;
  if (limitId !== undefined) extra.limit_id = limitId;
  if (plannedAt !== undefined) extra.planned_at = plannedAt.toISOString();
  if (job.unique !== undefined) extra.unique = ruleOf(job.unique);
  if (job.payload.kind === 'bytes') extra.payload_bytes = Buffer.from(job.payload.bytes).toString('base64');
  if (placement !== null) Object.assign(extra, placementExtra(job, placement));
  if (Object.keys(extra).length > 0) return JSON.stringify(extra);
  return null;
}

function placementExtra(job: NewJob, placement: Placement): Record<string, unknown> {
  return {
    ...(placement.dependsOnSeqs.length === 0 ? {} : { depends_on: placement.dependsOnSeqs, dependency_type: job.dependencyType }),
    ...(placement.waits ? { waits: true } : {}),
    ...(placement.parentSeq === null ? {} : { parent_seq: placement.parentSeq, joins_parent: placement.joinsParent }),
    depth: placement.depth,
    requested_priority: job.priority,
  };
}
