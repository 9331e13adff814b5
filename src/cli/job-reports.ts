import type { EventHub } from '../engine/events.ts';
import type { Output } from './output.ts';

/** Prints the log lines of handlers, failures and lost jobs. With --verbose it prints every start and end as well. */
export function reportJobs(jobs: Pick<EventHub, 'on'>, out: Output): void {
  jobs.on('log', ({ jobId, type, attempt, level, message, fields }) => {
    const extra = Object.keys(fields).length === 0 ? '' : ` ${JSON.stringify(fields)}`;
    out.event({ event: 'log', jobId, type, attempt, level, message, fields }, `${level} ${type} ${jobId}: ${message}${extra}`);
  });
  jobs.on('failed', ({ jobId, type, attempt, state, failure, delayMs }) => {
    const next = state === 'retrying' ? `is retried in ${((delayMs ?? 0) / 1_000).toFixed(1)} s` : `is ${state}`;
    const text = `failed ${type} ${jobId}, attempt ${attempt}: ${failure.code} ${failure.message}; the job ${next}`;
    out.event({ event: 'failed', jobId, type, attempt, state, failure, delayMs }, text);
  });
  jobs.on('lost', ({ jobId, type, attempt }) => {
    out.event({ event: 'lost', jobId, type, attempt }, `lost ${type} ${jobId}, attempt ${attempt}: another worker owns the job now`);
  });
  if (!out.verbose) return;
  for (const event of ['started', 'completed', 'cancelled', 'postponed'] as const) {
    jobs.on(event, ({ jobId, type, attempt }) => {
      out.event({ event, jobId, type, attempt }, `${event} ${type} ${jobId}, attempt ${attempt}`);
    });
  }
}
