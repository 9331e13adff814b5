import type { JobState } from '../../core/states.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import { attemptsText, errorText } from './derived-text.ts';
import type { IngestError } from './read-jobs.ts';

/** A resource as the job that downloads it shows it. */
export type IngestResourceRow = {
  readonly position: number;
  readonly id: string;
  readonly taskId: string;
  readonly url: string;
  readonly state: JobState;
  /** Attempts that sent a request. Time spent waiting for the host is not an attempt. */
  readonly attempts: number;
  readonly error: IngestError | null;
  /** What the last failed attempt saw last: the status of a response, and the proxy pool that it tried. */
  readonly lastStatus: string | null;
  readonly lastProxy: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  /** The result of a completed download, as JSON. */
  readonly result: string | null;
};

type Params = { jobId: string; states: readonly string[] | null; after: number; limit: number };

const seenText = (name: string): string => `CASE WHEN j.state <> 'completed' THEN j.last_error->'context'->>'${name}' END`;

const LIST = namedStatement<Params, IngestResourceRow>(
  'list_ingest_resources',
  `SELECT r.position, r.resource_id AS id, r.task_id AS "taskId", j.payload->>'url' AS url, j.state, a.attempts,
     ${errorText('j')} AS error, ${seenText('http_status')} AS "lastStatus", ${seenText('proxy')} AS "lastProxy",
     CASE WHEN a.attempts > 0 THEN j.started_at END AS "startedAt", j.completed_at AS "finishedAt",
     CASE WHEN j.state = 'completed' THEN j.result::text END AS result
   FROM millrace.ingest_resources r JOIN millrace.jobs j ON j.id = r.task_id
     CROSS JOIN LATERAL (SELECT ${attemptsText('j')} AS attempts OFFSET 0) a
   WHERE r.job_id = $jobId::uuid AND r.position > $after::int4
     AND ($states::text[] IS NULL OR j.state::text = ANY ($states::text[]))
   ORDER BY r.position LIMIT $limit::int4`,
);

/** In the order of the manifest. Resources whose tasks were removed after their retention are left out. */
export async function listIngestResources(
  db: Queryable,
  { jobId, states, after, limit }: { jobId: string; states: readonly JobState[] | null; after: number; limit: number },
): Promise<{ resources: IngestResourceRow[]; next: number | null }> {
  const rows = await runNamed(db, LIST, { jobId, states, after, limit: limit + 1 });
  const page = rows.slice(0, limit);
  return { resources: page, next: rows.length > limit ? (page.at(-1)?.position ?? null) : null };
}

const TASKS = statement(
  'list_ingest_tasks',
  `SELECT r.position, r.resource_id AS "resourceId", j.id AS "taskId", j.state FROM millrace.ingest_resources r JOIN millrace.jobs j ON j.id = r.task_id
   WHERE r.job_id = $1::uuid AND j.state::text = ANY ($2::text[]) ORDER BY r.position`,
);

export type IngestTask = { readonly position: number; readonly resourceId: string; readonly taskId: string; readonly state: JobState };

/** The tasks of a job that are in one of these states. */
export async function tasksIn(db: Queryable, jobId: string, states: readonly JobState[]): Promise<IngestTask[]> {
  return run<IngestTask>(db, TASKS, [jobId, states]);
}

const PAYLOADS = statement(
  'read_ingest_payloads',
  `SELECT j.id AS "taskId", j.payload::text AS payload, j.priority::int4 AS priority FROM millrace.jobs j WHERE j.id = ANY ($1::uuid[])`,
);

export type TaskPayload = { readonly taskId: string; readonly payload: string; readonly priority: number };

export async function payloadsOf(db: Queryable, taskIds: readonly string[]): Promise<TaskPayload[]> {
  return run<TaskPayload>(db, PAYLOADS, [taskIds]);
}

const ATTEMPTS = statement(
  'count_download_attempts',
  `SELECT ${attemptsText('j')} AS attempts FROM millrace.jobs j WHERE j.id = $2::uuid AND j.org_id = $1::uuid`,
);

/** Counts the attempts of a download that sent a request, including the current one. */
export async function downloadAttempts(db: Queryable, { orgId, jobId }: { orgId: string; jobId: string }): Promise<number> {
  return (await run<{ attempts: number }>(db, ATTEMPTS, [orgId, jobId]))[0]?.attempts ?? 0;
}
