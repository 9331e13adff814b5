import { isStorable } from '../../core/bounded-text.ts';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import { isCategoryName } from '../../core/governance/categories.ts';
import { Issues } from '../../core/issues.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { MISSED, type Missed, OVERLAPS, type Overlap } from '../../core/schedule-words.ts';
import type { Submission } from '../../core/submission.ts';
import { FIELD_LIMITS, readText, readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionTerms } from '../../engine/submit/prepared.ts';
import { firstRun } from '../../engine/upkeep/scheduler.ts';
import type { Author } from '../../ledger/queues/put-schedule.ts';
import type { ScheduleToPut } from '../../ledger/queues/schedules.ts';
import { prepareSubmission } from '../jobs/prepare-submission.ts';
import { invalidSubmission } from '../jobs/submission-result.ts';

/** The members of a schedule as its owner gives them. */
export type ScheduleRequest = {
  /** Five or six fields, or a nickname such as `@daily`. */
  cron: string;
  /** The zone whose clocks the expression refers to. Default: UTC. */
  timeZone?: string;
  /** How many jobs to submit for times that passed while no process was running: none, one (default), or one for each time. */
  missed?: Missed;
  /** If the job of an earlier run has not ended: skip this run, queue its job too (default), or cancel the earlier job. */
  overlap?: Overlap;
  /** Whether the schedule does nothing for now. Without it, an existing schedule stays as it is. */
  paused?: boolean;
  /** The job of each run. */
  submission: Submission;
};

const MEMBERS = membersOf<ScheduleRequest>({
  cron: true,
  timeZone: true,
  missed: true,
  overlap: true,
  paused: true,
  submission: true,
});

export const MAX_SCHEDULE_KEY = 200;
export const MAX_CRON = 200;
export const MAX_TIME_ZONE = 100;

/** Checks a new key. A path cannot end in `.` or `..`, so these would be out of reach over HTTP. */
function checkScheduleKey(key: unknown): asserts key is string {
  if (typeof key !== 'string' || key.length < 1 || key.length > MAX_SCHEDULE_KEY) {
    throw refusal('key', `key must have 1 to ${MAX_SCHEDULE_KEY} characters`);
  }
  if (!isStorable(key)) throw refusal('key', 'key must be valid Unicode without the NUL character');
  if (key === '.' || key === '..') throw refusal('key', 'key must not be "." or "..", because these have a meaning in a URL');
}

/** Whether a schedule may have this key. A lookup of any other finds nothing. */
export function mayBeKey(key: unknown): key is string {
  if (typeof key !== 'string') throw refusal('key', 'key must be a string');
  return isStorable(key);
}

export function checkReason(reason: string | null): void {
  if (reason === null || reason === '') return;
  const issues = new Issues();
  readText(reason, { field: 'reason', max: FIELD_LIMITS.reason }, issues);
  issues.throwIfAny();
}

export type Validation = { orgId: string; now: Date; terms?: SubmissionTerms };

/** Checks all members of a schedule, by the rules of every door, and returns it with its next scheduled run. */
export async function readSchedule(
  engine: Engine,
  { key, ...given }: ScheduleRequest & { key: string },
  { orgId, now, terms }: Validation,
): Promise<ScheduleToPut> {
  checkMembers(given, MEMBERS, 'schedule');
  const { cron, timeZone = 'UTC', missed = 'one', overlap = 'queue', submission } = given;
  checkScheduleKey(key);
  const issues = new Issues();
  readText(cron, { field: 'cron', max: MAX_CRON }, issues);
  readText(timeZone, { field: 'timeZone', max: MAX_TIME_ZONE }, issues);
  readWord(missed, { field: 'missed', words: MISSED }, issues);
  readWord(overlap, { field: 'overlap', words: OVERLAPS }, issues);
  if (given.paused !== undefined && typeof given.paused !== 'boolean') issues.add('paused', 'INVALID_TYPE', 'must be true or false');
  // The library that reads expressions also reads a date, which would be a schedule of one run.
  if (typeof cron === 'string' && cron.includes(':'))
    issues.add('cron', 'INVALID_VALUE', 'must be a cron expression such as 30 2 * * *, or a nickname such as @daily');
  // A schedule is stored as JSON, which cannot contain bytes.
  if (submission?.payload instanceof Uint8Array) issues.add('payload', 'INVALID_TYPE', 'of a schedule must be an object, not bytes');
  refuseUnscheduled(submission?.category, engine, issues);
  issues.throwIfAny();
  const nextAt = firstRun({ cron, timeZone, from: now });
  const prepared = await prepareSubmission(engine, { orgId, submission, actor: null, terms });
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  return { key, cron, timeZone, missed, overlap, submission, nextAt };
}

/** Only some categories may start later, and a job of a schedule starts when the schedule says. */
function refuseUnscheduled(name: unknown, { governance }: Engine, issues: Issues): void {
  const category = isCategoryName(name) ? governance.categories.get(name) : undefined;
  if (category === undefined || category.allowsScheduling) return;
  issues.add(
    'category',
    'SCHEDULING_NOT_ALLOWED',
    `must be notification or maintenance: jobs of the category ${category.name} cannot be scheduled`,
  );
}

export type { Author };

const refusal = (field: string, message: string): AppError => invalidRequest({ field, code: 'INVALID_VALUE', message });
