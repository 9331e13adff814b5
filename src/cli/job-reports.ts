import type { EngineEvents, EventHub, JobFacts } from '../engine/events.ts';
import type { Output } from './output.ts';

/** Where the events of jobs come from: an engine, or the library. */
export type JobSource = Pick<EventHub, 'on'>;

/** Prints the log lines of handlers, failures and lost jobs. With --verbose it prints every start and end as well. */
export function reportJobs(jobs: JobSource, out: Output): void {
  reportLogs(jobs, out);
  jobs.on('failed', (facts) => {
    const { jobId, type, attempt, state, failure, delayMs } = facts;
    out.event({ event: 'failed', jobId, type, attempt, state, failure, delayMs }, failedText(facts));
  });
  jobs.on('lost', (facts) => {
    const { jobId, type, attempt } = facts;
    out.event({ event: 'lost', jobId, type, attempt }, lostText(facts));
  });
  jobs.on('notificationLost', ({ orgId, type, message }) => {
    out.event({ event: 'notificationLost', orgId, type, message }, `lost a notification ${type} of org ${orgId}: ${message}`);
  });
  if (!out.verbose) return;
  for (const event of ['started', 'completed', 'cancelled', 'postponed'] as const) {
    jobs.on(event, (facts) => {
      const { jobId, type, attempt } = facts;
      out.event({ event, jobId, type, attempt }, endText(event, facts));
    });
  }
}

/** Prints the log lines of handlers. */
export function reportLogs(jobs: JobSource, out: Output): void {
  jobs.on('log', ({ jobId, type, attempt, level, message, fields }) => {
    const extra = Object.keys(fields).length === 0 ? '' : ` ${JSON.stringify(fields)}`;
    out.event({ event: 'log', jobId, type, attempt, level, message, fields }, `${level} ${type} ${jobId}: ${message}${extra}`);
  });
}

export const endText = (event: string, { jobId, type, attempt }: JobFacts): string => `${event} ${type} ${jobId}, attempt ${attempt}`;

export const lostText = (facts: JobFacts): string => `${endText('lost', facts)}: another worker owns the job now`;

export function failedText(facts: EngineEvents['failed']): string {
  const { state, failure, delayMs } = facts;
  const next = state === 'retrying' ? `is retried in ${((delayMs ?? 0) / 1_000).toFixed(1)} s` : `is ${state}`;
  return `${endText('failed', facts)}: ${failure.code} ${failure.message}; the job ${next}`;
}
