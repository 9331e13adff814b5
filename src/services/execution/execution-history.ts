import { type ExecutionEvent, projectEvents } from '../../core/execution/events.ts';
import { isWorkKind, type WorkKind } from '../../core/execution/kinds.ts';
import {
  type ExecutionFailure,
  type ExecutionOutcome,
  executionStateOf,
  failureOf,
  outcomeOf,
} from '../../core/execution/states.ts';
import type { Job, StateTransition } from '../../core/job.ts';
import { getJobs } from '../../ledger/reads/get-job.ts';
import { jobHistories } from '../../ledger/reads/job-history.ts';
import type { ExecutionContext } from './context.ts';
import { definitionOf } from './read-execution.ts';

/** A job and its events as they were at one moment. No events: the history is gone. */
export type Remembered = { readonly job: Job; readonly events: readonly ExecutionEvent[] };

/** A job that changes between the reads of the row and of its history is read again, this often at most. */
const MAX_READS = 4;

/** Jobs of one client with their events, in the order given. A job that is gone meanwhile is left out. */
export async function withEvents(c: ExecutionContext, orgId: string, jobs: readonly Job[]): Promise<Remembered[]> {
  const remembered = new Map<string, Remembered>();
  let open = jobs;
  for (let read = 1; open.length > 0 && read <= MAX_READS; read++) {
    const ids = open.map(({ id }) => id);
    const current = read === 1 ? open : await getJobs(c.engine.database.api, orgId, ids);
    const histories = await jobHistories(c.engine.database.api, orgId, ids);
    const changed: Job[] = [];
    for (const job of current) {
      const history = histories.get(job.id) ?? [];
      if (agrees(job, history)) remembered.set(job.id, { job, events: eventsOf(job, history) });
      else changed.push(job);
    }
    open = changed;
  }
  // What never agreed has lost a part of its history: the job stands, its events do not.
  for (const job of open) remembered.set(job.id, { job, events: [] });
  return jobs.flatMap(({ id }) => remembered.get(id) ?? []);
}

/** The history has no gap and leads to the state that the row shows. Its oldest part may be gone. */
function agrees(job: Job, history: readonly StateTransition[]): boolean {
  if (history.length === 0) return true;
  return hasNoGap(history) && history.at(-1)?.to === job.state;
}

const hasNoGap = (history: readonly StateTransition[]): boolean =>
  history.every(({ from }, index) => index === 0 || from === history[index - 1]?.to);

function eventsOf(job: Job, history: readonly StateTransition[]): ExecutionEvent[] {
  if (history.length === 0) return [];
  return projectEvents({ jobId: job.id, scenario: scenarioOf(job), maxAttempts: job.maxAttempts, history });
}

function scenarioOf(job: Job): WorkKind {
  const kind = definitionOf(job)?.work_kind ?? job.tags?.work_kind;
  return isWorkKind(kind) ? kind : 'PAYLOAD_INVALID';
}

/** The outcome of a finished job, with every change of its state. */
export type ExecutionReport = {
  readonly jobId: string;
  readonly outcome: ExecutionOutcome;
  readonly events: readonly ExecutionEvent[];
  /** When the attempt that decided the outcome started; null if it never did. */
  readonly startedAt: Date | null;
  readonly finishedAt: Date;
  readonly durationMs: number;
  readonly failure: ExecutionFailure | null;
};

type ReportedJob = Pick<Job, 'id' | 'state' | 'attemptsStarted' | 'lastFailure'> & { readonly isLeased: boolean };

/** Null while the job is not final, and when the events are missing or newer than the job row that was read. */
export function reportOf(job: ReportedJob, events: readonly ExecutionEvent[]): ExecutionReport | null {
  const state = executionStateOf(job);
  const outcome = outcomeOf(state);
  const last = events.at(-1);
  if (outcome === null || last?.nextState !== state) return null;
  const started = events.findLast(({ eventName }) => eventName === 'job.running' || eventName === 'job.retried');
  const startedAt = started?.eventName === 'job.running' ? new Date(started.timestamp) : null;
  const finishedAt = new Date(last.timestamp);
  return {
    jobId: job.id,
    outcome,
    events,
    startedAt,
    finishedAt,
    durationMs: startedAt === null ? 0 : finishedAt.getTime() - startedAt.getTime(),
    failure: outcome === 'FAILED' ? failureOf(job.lastFailure) : null,
  };
}
