import { formatDuration } from './duration.ts';
import type { Issues } from './issues.ts';
import { checkDebounce, type JobUnique } from './unique.ts';

type Start = { readonly delayMs: number | null; readonly scheduledAt: Date | null; readonly unique: JobUnique | null };
type LifetimeParams = { readonly lifetimeMs: number | null; readonly nowMs: number };

/** Refuses a job whose lifetime would end before its start. */
export function checkStart({ delayMs, scheduledAt, unique }: Start, { lifetimeMs, nowMs }: LifetimeParams, issues: Issues): void {
  if (delayMs !== null && scheduledAt !== null) {
    issues.add('delay', 'CONFLICTING_MEMBERS', 'and scheduledAt cannot be combined: use one of them');
  }
  if (lifetimeMs === null) return;
  if (delayMs !== null && delayMs >= lifetimeMs) issues.add('delay', 'BEYOND_LIFETIME', beyond(lifetimeMs));
  if (scheduledAt !== null && scheduledAt.getTime() - nowMs >= lifetimeMs) issues.add('scheduledAt', 'BEYOND_LIFETIME', beyond(lifetimeMs));
  checkDebounce(unique, lifetimeMs, issues);
}

/** Not before it is needed: it takes longer than all other checks of most jobs. */
const beyond = (lifetimeMs: number): string =>
  `is not within the lifetime of the job, ${formatDuration(lifetimeMs)} from submission: the job would end before it starts. Submit it with a longer lifetime`;
