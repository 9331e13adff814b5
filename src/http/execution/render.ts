import type { Static } from 'typebox';
import type { ExecutionEvent } from '../../core/execution/events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { ReportRow } from '../../services/execution/execution-reports.ts';
import type { ExecutionReport, ExecutionView } from '../../services/execution/read-execution.ts';
import type { ExecutionJob } from './schemas/job.ts';
import type { ExecutionReportRow } from './schemas/lists.ts';
import type { ExecutionEvent as EventShape, ExecutionReport as ReportShape } from './schemas/report.ts';

export const timeOrNull = (date: Date | null): string | null => (date === null ? null : formatTimestamp(date));

export function renderExecution(view: ExecutionView): Static<typeof ExecutionJob> {
  const { callback, definition, progress, failure } = view;
  return { ...renderMembers(view), callback, definition, ...renderTimes(view), progress, failure };
}

function renderMembers(view: ExecutionView) {
  return {
    job_id: view.jobId,
    type: view.type,
    state: view.state,
    outcome: view.outcome,
    created_at: formatTimestamp(view.createdAt),
    execution_at: timeOrNull(view.executionAt),
    updated_at: formatTimestamp(view.updatedAt),
    attempt: view.attempt,
  };
}

const renderTimes = ({ startedAt, finishedAt }: ExecutionView) => ({
  started_at: timeOrNull(startedAt),
  finished_at: timeOrNull(finishedAt),
});

export function renderReport(report: ExecutionReport): Static<typeof ReportShape> {
  return {
    job_id: report.jobId,
    outcome: report.outcome,
    events: report.events.map(renderEvent),
    started_at: timeOrNull(report.startedAt),
    finished_at: formatTimestamp(report.finishedAt),
    duration_ms: report.durationMs,
    failure: report.failure,
  };
}

function renderEvent(event: ExecutionEvent): Static<typeof EventShape> {
  return {
    event_id: event.eventId,
    job_id: event.jobId,
    event_name: event.eventName,
    prev_state: event.prevState,
    next_state: event.nextState,
    timestamp: event.timestamp,
    scenario: event.scenario,
    attempt: event.attempt,
    ...(event.reason === undefined ? {} : { reason: event.reason }),
    ...(event.retriesExhausted === undefined ? {} : { retries_exhausted: true }),
  };
}

export type RenderedRow = Static<typeof ExecutionReportRow>;

export function renderRow(row: ReportRow): RenderedRow {
  return {
    ...renderMembers(row),
    work_kind: row.definition?.work_kind ?? null,
    ...renderTimes(row),
    duration_ms: row.durationMs,
    failure: row.failure,
    ...(row.events === undefined ? {} : { events: row.events.map(renderEvent) }),
  };
}
