import { type ExecutionEvent, projectEvents } from '../../core/execution/events.ts';
import { isWorkKind, type WorkKind } from '../../core/execution/kinds.ts';
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
