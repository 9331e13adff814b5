import type { NewJob } from '../../core/submission.ts';

/** Of a job `j`, the type that its key was sent with: the key stays with that request though the job's type is changed. */
export const keyedTypeText = (j: string): string => `coalesce(${j}.keyed_type, ${j}.job_type)`;

/**
 * What a key is told apart by within its org: the job type, and the project of a job that has one. No type holds a line break.
 * Takes the SQL of both.
 */
export const keyScopeText = (jobType: string, projectId: string): string =>
  `CASE WHEN ${projectId} IS NULL THEN ${jobType} ELSE ${jobType} || chr(10) || ${projectId}::text END`;

/** The same of a job that is about to be written. */
export function keyScopeOf({ type, envelope }: Pick<NewJob, 'type' | 'envelope'>): string {
  const projectId = envelope?.projectId ?? null;
  return projectId === null ? type : `${type}\n${projectId}`;
}
