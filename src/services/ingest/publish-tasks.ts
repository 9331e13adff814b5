import { randomUUID } from 'node:crypto';
import { invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { DownloadTask } from '../../core/ingest/handler.ts';
import { Issues } from '../../core/issues.ts';
import { checkMembers, isRecord, membersOf } from '../../core/known-members.ts';
import { type Queryable, sqlStateOf } from '../../ledger/driver/statement.ts';
import { publishRows, type RowToPublish } from '../../ledger/ingest/task-intake.ts';

/** A download to publish. Its headers, proxy and storage complete or replace those of its job type. */
export type TaskToPublish = DownloadTask & {
  /** The address to download. */
  readonly url: string;
};

/** Options of `publishTasks`. */
export type PublishOptions = {
  /** The job type of the tasks. */
  jobType: string;
  /** Where your program stored the manifest of the job, if it has one. Operators see it. */
  manifestKey?: string;
  /** Your own id of the job, a UUID. Calls with the same id and job type add to the same job. By default each call makes a new job. */
  jobId?: string;
};

/** What was published. */
export type PublishedTasks = {
  /** Your id of the job. Operators see it as `producer_job_id`; the job has an id of its own as well. */
  readonly jobId: string;
  /** How many tasks were published. */
  readonly count: number;
};

const OPTIONS = membersOf<PublishOptions>({ jobType: true, manifestKey: true, jobId: true });
const TASK = membersOf<TaskToPublish>({ resourceId: true, url: true, headers: true, proxy: true, storage: true, tags: true });
const MOST_TASKS = 10_000;
/** NUL, which PostgreSQL cannot store: in a text, and in JSON. */
const NUL_STATES = new Set(['22021', '22P05']);

/** Publishes tasks in one statement. Without an org, the role of the connection determines it. The content is not checked. */
export async function publishTasks(
  db: Queryable,
  { orgId, tasks, options }: { orgId: string | null; tasks: readonly TaskToPublish[]; options: PublishOptions },
): Promise<PublishedTasks> {
  checkMembers(options, OPTIONS);
  const { jobType, manifestKey = null, jobId = randomUUID() } = options;
  const issues = new Issues();
  if (typeof jobType !== 'string' || jobType === '') issues.add('jobType', 'REQUIRED', 'is required and must be a string');
  if (manifestKey !== null && typeof manifestKey !== 'string') issues.add('manifestKey', 'INVALID_TYPE', 'must be a string');
  if (!isUuid(jobId)) issues.add('jobId', 'INVALID_VALUE', 'must be a UUID, or left out');
  if (!Array.isArray(tasks) || tasks.length < 1 || tasks.length > MOST_TASKS) {
    issues.add('tasks', 'OUT_OF_RANGE', `must be a list of 1 to ${MOST_TASKS} tasks`);
  } else for (const [index, task] of tasks.entries()) checkTask(task, `tasks[${index}]`, issues);
  issues.throwIfAny();
  await publishRows(db, { jobType, jobId, manifestKey, orgId, rows: tasks.map(rowOf) }).catch((error) => {
    if (!NUL_STATES.has(sqlStateOf(error) ?? '')) throw error;
    throw invalidRequest({ field: 'tasks', code: 'INVALID_TEXT', message: 'tasks must not contain the character NUL' });
  });
  return { jobId, count: tasks.length };
}

/** Mistakes of a program. Whether the task can be downloaded is not checked. */
function checkTask(task: unknown, field: string, issues: Issues): void {
  if (!isRecord(task)) {
    issues.add(field, 'INVALID_TYPE', 'must be an object with a resourceId and a url');
    return;
  }
  const { resourceId, url, proxy } = task as Partial<Record<keyof TaskToPublish, unknown>>;
  if (typeof resourceId !== 'string') issues.add(`${field}.resourceId`, 'REQUIRED', 'is required and must be a string');
  if (typeof url !== 'string') issues.add(`${field}.url`, 'REQUIRED', 'is required and must be a string');
  if (proxy !== undefined && typeof proxy !== 'string') issues.add(`${field}.proxy`, 'INVALID_TYPE', 'must be a string');
  const unknown = Object.keys(task).find((member) => !TASK.includes(member));
  if (unknown !== undefined)
    issues.add(`${field}.${unknown}`, 'UNKNOWN_MEMBER', `is not known. The members of a task are ${TASK.join(', ')}`);
}

const rowOf = ({ resourceId, url, headers, tags, proxy, storage }: TaskToPublish): RowToPublish => ({
  resourceId,
  url,
  headers: json(headers),
  tags: json(tags),
  proxy: proxy ?? null,
  storage: json(storage),
});

const json = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));
