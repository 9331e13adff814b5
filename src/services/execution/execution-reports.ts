import { AppError } from '../../core/errors.ts';
import { type ExecutionEvent, projectEvents } from '../../core/execution/events.ts';
import { isWorkKind, type WorkKind } from '../../core/execution/kinds.ts';
import { executionStateOf, outcomeOf } from '../../core/execution/states.ts';
import type { Job, StateTransition } from '../../core/job.ts';
import type { Owner } from '../../core/owner.ts';
import { getJobs } from '../../ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../ledger/reads/job-history.ts';
import { type Caller, type ExecutionContext, ownerOf } from './context.ts';
import { type ExecutionFilter, matches } from './execution-filter.ts';
import { type FoundExecution, findExecutions } from './list-executions.ts';
import {
  definitionOf,
  type ExecutionReport,
  type ExecutionView,
  type JobRequest,
  noSuchExecution,
  ownedExecution,
  reportOf,
  viewOf,
} from './read-execution.ts';

export async function reportExecution(c: ExecutionContext, request: JobRequest): Promise<ExecutionReport> {
  const { jobId, caller } = request;
  const [found] = await withEvents(c, ownerOf(caller), [await ownedExecution(c, request)]);
  if (found === undefined) throw noSuchExecution(jobId);
  const report = reportOf(found.job, found.events);
  if (report !== null) return report;
  const state = executionStateOf(found.job);
  const message =
    outcomeOf(state) === null
      ? `Job ${jobId} has no report yet: it is ${state}.`
      : `The report of job ${jobId} is no longer available: its history was deleted.`;
  throw new AppError('NOT_FOUND', { message, problem: 'RFA_JOB_NOT_FOUND' });
}

export type ReportRow = ExecutionView & {
  /** The duration of the attempt that decided the outcome; null until the job has one. */
  readonly durationMs: number | null;
  readonly events?: readonly ExecutionEvent[];
};

export type ReportFilter = ExecutionFilter & { readonly withEvents: boolean };

const PAGE = 1_000;

/** Yields every job of the client that matches, newest first, one page at a time. */
export async function* streamReports(
  c: ExecutionContext,
  { caller, filter, signal }: { readonly caller: Caller; readonly filter: ReportFilter; readonly signal?: AbortSignal },
): AsyncGenerator<ReportRow[]> {
  let cursor: string | undefined;
  do {
    const found = await findExecutions(c, caller, filter, { cursor, limit: PAGE, signal });
    cursor = found.nextCursor ?? undefined;
    if (found.jobs.length > 0) yield await rowsOf(c, caller, { found: found.jobs, filter, signal });
    if (!found.hasMore) return;
  } while (cursor !== undefined);
}

type Rows = { found: readonly FoundExecution[]; filter: ReportFilter; signal?: AbortSignal };

async function rowsOf(c: ExecutionContext, caller: Caller, { found, filter, signal }: Rows): Promise<ReportRow[]> {
  if (!filter.withEvents) return found.map(({ view }) => rowOf(view));
  const jobs = found.map(({ job }) => job);
  const read = await c.engine.searches.run(caller.clientId, () => withEvents(c, ownerOf(caller), jobs), signal);
  // A job that changed since the search is shown in its new state, if it still matches the filter.
  const rows = read.map(({ job, events }) => ({ ...rowOf(viewOf(job)), events }));
  return rows.filter((row) => matches(row, filter));
}

function rowOf(view: ExecutionView): ReportRow {
  const { finishedAt, startedAt } = view;
  if (finishedAt === null) return { ...view, durationMs: null };
  return { ...view, durationMs: startedAt === null ? 0 : finishedAt.getTime() - startedAt.getTime() };
}

/** A job and its events at one moment. Without events: the history was pruned. */
type JobWithEvents = { readonly job: Job; readonly events: readonly ExecutionEvent[] };

/** How often a job is read that changes between the read of its row and of its history. */
const MAX_READS = 4;

/** Reads the events of jobs of one client, and keeps their order. A job that was deleted meanwhile is left out. */
async function withEvents(c: ExecutionContext, owner: Owner, jobs: readonly Job[]): Promise<JobWithEvents[]> {
  const read = new Map<string, JobWithEvents>();
  const reads = c.engine.database.reads.of(owner.orgId);
  let open = jobs;
  for (let round = 1; open.length > 0 && round <= MAX_READS; round++) {
    const ids = open.map(({ id }) => id);
    const current = round === 1 ? open : await getJobs(reads, owner, ids);
    const wanted = current.map(({ id }) => ({ ...owner, id }));
    const histories = await historiesOfOrgs(reads, wanted);
    const changed: Job[] = [];
    for (const [index, job] of current.entries()) {
      const history = histories[index] ?? [];
      if (agrees(job, history)) read.set(job.id, { job, events: eventsOf(job, history) });
      else changed.push(job);
    }
    open = changed;
  }
  // A history that never agrees with its row has lost records: the job is shown without events.
  for (const job of open) read.set(job.id, { job, events: [] });
  return jobs.flatMap(({ id }) => read.get(id) ?? []);
}

/** Whether the history has no gap and ends in the state of the row. Its oldest part may have been pruned. */
function agrees(job: Job, history: readonly StateTransition[]): boolean {
  if (history.length === 0) return true;
  const hasNoGap = history.every(({ from }, index) => index === 0 || from === history[index - 1]?.to);
  return hasNoGap && history.at(-1)?.to === job.state;
}

function eventsOf(job: Job, history: readonly StateTransition[]): ExecutionEvent[] {
  if (history.length === 0) return [];
  return projectEvents({ jobId: job.id, scenario: scenarioOf(job), maxAttempts: job.maxAttempts, history });
}

function scenarioOf(job: Job): WorkKind {
  const kind = definitionOf(job)?.work_kind ?? job.tags?.work_kind;
  return isWorkKind(kind) ? kind : 'PAYLOAD_INVALID';
}
