import type { Progress } from '../../core/job.ts';
import { currentAttempt } from '../../core/job.ts';
import type { LogLine } from '../../core/job-log.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { OrgNews } from '../../engine/follow/org-news.ts';

/** Progress has no id. A client that resumes gets the newest one. */
export function progressText(job: { id: string; type: string }, progress: Progress & { readonly attempt: number }): string {
  const data = {
    job_id: job.id,
    type: job.type,
    percent: progress.percent,
    message: progress.message,
    attempt: currentAttempt(progress.attempt),
    timestamp: formatTimestamp(progress.updatedAt),
  };
  return `event: job.progress\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Only the stream of one job can resume after a line, so a line has an id only there. */
export function logText(job: { id: string; type: string }, line: LogLine, id?: string): string {
  const { attempt, level, message, fields, at } = line;
  const data = { job_id: job.id, type: job.type, level, message, fields, attempt, timestamp: formatTimestamp(at) };
  return `${id === undefined ? '' : `id: ${id}\n`}event: job.log\ndata: ${JSON.stringify(data)}\n\n`;
}

export function orgNewsText({ jobId, type, progress, line }: OrgNews): string {
  const job = { id: jobId, type };
  if (line !== null) return logText(job, line);
  return progress === null ? '' : progressText(job, progress);
}
