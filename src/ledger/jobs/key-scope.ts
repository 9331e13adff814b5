import type { NewJob } from '../../core/submission.ts';

/** The type of job `j` that its key was submitted with. The key keeps this type when the job's type is changed. */
export const keyedTypeText = (j: string): string => `coalesce(${j}.keyed_type, ${j}.job_type)`;

/**
 * The scope of a key within its org: the job type, and the project if the job has one. No type contains a line break. Takes the SQL of
 * both.
 */
export const keyScopeText = (jobType: string, projectId: string): string =>
  `CASE WHEN ${projectId} IS NULL THEN ${jobType} ELSE ${jobType} || chr(10) || ${projectId}::text END`;

/** The same for a job that is about to be written. */
export function keyScopeOf({ type, envelope }: Pick<NewJob, 'type' | 'envelope'>): string {
  const projectId = envelope?.projectId ?? null;
  return projectId === null ? type : `${type}\n${projectId}`;
}
