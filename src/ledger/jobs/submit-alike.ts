import type { Envelope } from '../../core/envelope.ts';
import { jsonArray, jsonbArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, type Statement } from '../driver/statement.ts';
import { type Flush, flushVariants } from '../history/flush-log.ts';
import { RECORD, RECORD_ID } from '../history/record-events.ts';
import { RUN_OF_NEIGHBOURS } from '../tokens.ts';
import type { JobToWrite } from './job-to-write.ts';

// Most statements write jobs of one kind: the batch of one caller, or jobs that many callers of one service sent at the same moment.
// These statements send shared values once and need no grouping.
//
// Tags and envelopes have variants of their statement, so that other jobs do not pay for them. Measured with tags and 25 jobs a
// statement: 20 to 28 us of database time a job, against 48 to 61 us with the statement for all kinds of jobs.

/** `maxTries`: how often a statement that fails is tried in all. */
export type HowToSubmit = { flush: Flush; maxTries?: number };

type Variant = { tagged: boolean; enveloped: boolean };
type Part = { input: string; names: string; columns: string; values: string };

const NOTHING: Part = { input: '', names: '', columns: '', values: '' };
const TAGS: Part = { input: ', $11::jsonb[]', names: ', tags', columns: ', tags', values: ', tags' };
const envelopeFrom = (first: number): Part => ({
  input: `, $${first}::text[], $${first + 1}::text[]`,
  names: ', request_id, traceparent',
  columns: ', category, project_id, request_id, traceparent',
  values: `, $${first + 2}::text, $${first + 3}::uuid, request_id, traceparent`,
});

function submitText({ tagged, enveloped }: Variant): string {
  const tags = tagged ? TAGS : NOTHING;
  const envelope = enveloped ? envelopeFrom(tagged ? 12 : 11) : NOTHING;
  const join = (part: keyof Part): string => `${tags[part]}${envelope[part]}`;
  const names = join('names');
  return `
WITH ${RECORD}, input AS MATERIALIZED (
  SELECT i.id, i.payload, nextval('millrace.job_seq') AS seq${names} FROM unnest($9::uuid[], $10::json[]${join('input')}) AS i(id, payload${names})
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, lifetime_deadline, order_key,
    policy_id, state, priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type, actor, payload${join('columns')})
  SELECT seq, $1::uuid, id, millrace.clock(), millrace.clock(), millrace.clock(), millrace.clock(),
    millrace.clock() + $7::int8 * interval '1 ms', seq, $5::int4, 'scheduled', $4::int2, $4::int2, $6::int2, 1, ARRAY[${RECORD_ID}],
    $2::text, $3::text, $8::text, payload${join('values')} FROM input
), made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT min(seq), millrace.clock() + $7::int8 * interval '1 ms', $1::uuid, $4::int2, $2::text, $3::text, array_agg(seq ORDER BY seq)
  FROM input GROUP BY ${RUN_OF_NEIGHBOURS}
), recorded AS (
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, queue, reason, actor, seqs)
  SELECT ${RECORD_ID}, millrace.clock(), $1::uuid, 'pending', 'scheduled', $4::int2, ${tagged}, $3::text, $2::text, 'submitted', $8::text,
    array_agg(seq) FROM input
  HAVING count(*) > 0
)
SELECT date_part('epoch', millrace.clock()) * 1000 AS at_ms`;
}

const written = (variant: Variant): Record<Flush, Statement> =>
  flushVariants(`submit_alike${variant.tagged ? '_tagged' : ''}${variant.enveloped ? '_enveloped' : ''}_jobs`, submitText(variant));

const PLAIN = written({ tagged: false, enveloped: false });
const ENVELOPED = written({ tagged: false, enveloped: true });
const TAGGED = written({ tagged: true, enveloped: false });
const TAGGED_ENVELOPED = written({ tagged: true, enveloped: true });

const isBareButForTags = ({ job, placement, plannedAt }: JobToWrite): boolean =>
  placement === null &&
  plannedAt === undefined &&
  job.limit === undefined &&
  job.unique === undefined &&
  job.idempotencyKey === null &&
  job.runAt === null &&
  job.runAfterMs === null &&
  job.correlationId === null &&
  job.callbackUrl === null &&
  job.payload.kind === 'json';

/** Whether a job has no rare member, such as a key, a delay or tags. It may have an envelope. */
export const isBare = (entry: JobToWrite): boolean => entry.job.tags === null && isBareButForTags(entry);

// Request ids and traces may differ from job to job. Category and project must be equal, and either all jobs or none have an envelope.
const hasLikeEnvelope = (one: Envelope | null, other: Envelope | null): boolean =>
  one === other || (one !== null && other !== null && one.category === other.category && one.projectId === other.projectId);

/** Whether the jobs differ only in their ids, payloads, tags and origins, and have no other rare member. */
export function areAlike(jobs: readonly JobToWrite[]): boolean {
  const first = jobs[0];
  if (first === undefined) return false;
  return jobs.every(
    (entry) =>
      isBareButForTags(entry) &&
      entry.orgId === first.orgId &&
      entry.policyId === first.policyId &&
      entry.actor === first.actor &&
      entry.job.type === first.job.type &&
      entry.job.queue === first.job.queue &&
      entry.job.priority === first.job.priority &&
      (entry.job.tags === null) === (first.job.tags === null) &&
      hasLikeEnvelope(entry.job.envelope, first.job.envelope),
  );
}

/** Runs the statement without a job. It writes no row, but PostgreSQL plans it. */
export const submitNone = (db: Queryable): Promise<unknown> =>
  Promise.all([PLAIN.flushed, PLAIN.unflushed].map((made) => run(db, made, [...Array(8).fill(null), uuidArray([]), jsonArray([])])));

/** Writes jobs for which `areAlike` holds, ready to run. Returns the time of the write, by the ledger's clock. */
export async function submitAlike(db: Queryable, jobs: readonly JobToWrite[], how: HowToSubmit): Promise<number> {
  const { orgId, policyId, actor, job } = jobs[0] as JobToWrite;
  const parameters = [
    ...[orgId, job.queue, job.type, job.priority, policyId, job.policy.maxAttempts, job.policy.lifetimeMs, actor],
    uuidArray(jobs.map((entry) => entry.id)),
    jsonArray(jobs.map((entry) => (entry.job.payload.kind === 'json' ? entry.job.payload.text : null))),
  ];
  const { envelope, tags } = job;
  if (tags !== null) parameters.push(jsonbArray(jobs.map((entry) => JSON.stringify(entry.job.tags))));
  if (envelope !== null) parameters.push(...originsOf(jobs), envelope.category, envelope.projectId);
  const [plain, enveloped] = tags === null ? [PLAIN, ENVELOPED] : [TAGGED, TAGGED_ENVELOPED];
  const made = (envelope === null ? plain : enveloped)[how.flush];
  const [row] = await run<{ at_ms: number }>(db, made, parameters, { maxTries: how.maxTries });
  return Number(row?.at_ms);
}

const originsOf = (jobs: readonly JobToWrite[]): Buffer[] => [
  textArray(jobs.map(({ job }) => job.envelope?.requestId ?? null)),
  textArray(jobs.map(({ job }) => job.envelope?.traceparent ?? null)),
];
