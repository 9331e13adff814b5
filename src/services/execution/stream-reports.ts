import type { ExecutionEvent } from '../../core/execution/events.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { type ExecutionFilter, matches } from './execution-filter.ts';
import { withEvents } from './execution-history.ts';
import { type FoundExecution, findExecutions } from './list-executions.ts';
import { type ExecutionView, viewOf } from './read-execution.ts';

/** One job in the report over all jobs. */
export type ReportRow = ExecutionView & {
  /** Of the attempt that gave the outcome; null until there is one. */
  readonly durationMs: number | null;
  readonly events?: readonly ExecutionEvent[];
};

export type ReportFilter = ExecutionFilter & { readonly withEvents: boolean };

const PAGE = 1_000;

/** Every job of one client that matches, newest first, as many at a time as are read at once. */
export async function* streamReports(
  c: ExecutionContext,
  caller: Caller,
  filter: ReportFilter,
): AsyncGenerator<ReportRow[]> {
  let cursor: string | undefined;
  do {
    const found = await findExecutions(c, caller, filter, { cursor, limit: PAGE });
    cursor = found.nextCursor ?? undefined;
    if (found.jobs.length > 0) yield await rowsOf(c, caller, { found: found.jobs, filter });
    if (!found.hasMore) return;
  } while (cursor !== undefined);
}

type Rows = { found: readonly FoundExecution[]; filter: ReportFilter };

async function rowsOf(c: ExecutionContext, caller: Caller, { found, filter }: Rows): Promise<ReportRow[]> {
  if (!filter.withEvents) return found.map(({ view }) => rowOf(view));
  const jobs = found.map(({ job }) => job);
  const remembered = await withEvents(c, caller.clientId, jobs);
  // A job that changed since it was found is shown as its events tell it, if it is still asked for.
  const rows = remembered.map(({ job, events }) => ({ ...rowOf(viewOf(job)), events }));
  return rows.filter((row) => matches(row, filter));
}

function rowOf(view: ExecutionView): ReportRow {
  const { finishedAt, startedAt } = view;
  if (finishedAt === null) return { ...view, durationMs: null };
  return { ...view, durationMs: startedAt === null ? 0 : finishedAt.getTime() - startedAt.getTime() };
}
