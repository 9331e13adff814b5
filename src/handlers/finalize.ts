import { PermanentError } from '../core/handler-errors.ts';
import { FINALIZE_TYPE } from '../core/ingest/fetch-task.ts';
import type { IngestHandler, IngestHandlerContext, IngestSummary } from '../core/ingest/handler.ts';
import type { IngestLogLine } from '../core/ingest/log-line.ts';

export type FinalizePorts = {
  /** The handler of a job type, and what it is called with. */
  handlerOf(jobType: string): { handler: IngestHandler; context: IngestHandlerContext };
  log(jobId: string, line: IngestLogLine): void;
  flushLog?(): Promise<void>;
};

/** The registration of the last step of ingest jobs. */
export function finalizeRegistration(ports: FinalizePorts) {
  return { type: FINALIZE_TYPE, handler: (_context: unknown, payload: unknown) => finalize(ports, payload as IngestSummary) };
}

/** Calls the handler with the sums of the job. What it throws decides about a retry, as in every handler. */
async function finalize({ handlerOf, log, flushLog }: FinalizePorts, summary: IngestSummary): Promise<{ finalized: boolean }> {
  const { jobId, jobType } = summary;
  const { handler, context } = handlerOf(jobType);
  if (handler.finalizeJob === undefined) return { finalized: false };
  try {
    await handler.finalizeJob(summary, context);
    log(jobId, { level: 'info', event: 'job.finalized', message: 'The handler finished the job.' });
    return { finalized: true };
  } catch (error) {
    const isPermanent = error instanceof PermanentError;
    const message = `finalizeJob failed: ${error instanceof Error ? error.message : String(error)}`;
    log(jobId, { level: isPermanent ? 'error' : 'warn', event: 'job.finalize_failed', message });
    throw error;
  } finally {
    await flushLog?.().catch(() => undefined);
  }
}
