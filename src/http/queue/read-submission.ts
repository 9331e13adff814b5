import { dictionary, lookUp } from '../../core/dictionary.ts';
import { AppError, type Issue, invalidRequest, isAppError, MAX_ISSUES } from '../../core/errors.ts';
import { Issues } from '../../core/issues.ts';
import { suggestion } from '../../core/nearest-name.ts';
import type { Submission } from '../../core/submission.ts';
import { CRITICAL_QUEUE } from '../../core/submission-fields.ts';
import { Turns } from '../../core/turns.ts';
import { invalidSubmission } from '../../services/jobs/submission-result.ts';
import type { Identity } from '../shared/identity.ts';
import { BACKOFF_MEMBERS, SUBMISSION_MEMBERS, UNIQUE_MEMBERS } from './words.ts';

type Members = Readonly<Record<string, string>>;

/** A submission with the core's names of members. `issues` lists core names that this API does not accept. */
export type ReadSubmission = { submission: Submission; issues: readonly Issue[] };

/** The caller and the trace of the request. */
export type Asker = { identity: Identity; traceparent: string | null };

/** Renames the members and checks permissions. The service validates the values. Throws FORBIDDEN. */
export function readSubmission(body: unknown, { identity, traceparent }: Asker): ReadSubmission {
  const issues = new Issues();
  const submission = rename(body, { members: SUBMISSION_MEMBERS, prefix: '', issues }) as Record<string, unknown>;
  if (!isObject(submission)) return { submission: submission as unknown as Submission, issues: [] };
  refuseTwoTimes(body as Record<string, unknown>, issues);
  if ('org_id' in submission) {
    requireOwnOrg(submission.org_id, identity);
    delete submission.org_id;
  }
  if (identity.projectId !== null) submission.projectId = ownProject(submission.projectId, identity.projectId);
  if (traceparent !== null) submission.traceparent ??= traceparent;
  if ('backoff' in submission) {
    submission.backoff = rename(submission.backoff, { members: BACKOFF_MEMBERS, prefix: 'backoff.', issues });
  }
  if ('unique' in submission) {
    submission.unique = rename(submission.unique, { members: UNIQUE_MEMBERS, prefix: 'unique.', issues });
  }
  if (submission.queue === CRITICAL_QUEUE) requireCritical(identity, 'queue');
  requirePriority(identity, submission.priority);
  return { submission: submission as unknown as Submission, issues: issues.list };
}

/** `scheduled_for` and `scheduled_at` are the same member. */
function refuseTwoTimes(body: Record<string, unknown>, issues: Issues): void {
  if (lookUp(body, 'scheduled_for') == null || lookUp(body, 'scheduled_at') == null) return;
  issues.add('scheduled_for', 'CONFLICTING_MEMBERS', 'and scheduled_at are the same member: send one of them');
}

const CORE_TIME = /\bscheduledAt\b/g;

/** Names the time of a submission as the caller did. The core has one name for both members, and errors would show the other one. */
export function inSentNames<E>(error: E, sent: unknown): E | AppError {
  if (!isAppError(error, 'INVALID_REQUEST') || !isObject(sent) || lookUp(sent, 'scheduled_for') == null) return error;
  const inSent = (text: string) => text.replace(CORE_TIME, 'scheduled_for');
  // The name of an unknown member is that of the caller.
  if (error.details.some(({ code }) => code === 'UNKNOWN_MEMBER')) return error;
  const details = error.details.map((issue) => ({ ...issue, field: inSent(issue.field), message: inSent(issue.message) }));
  return new AppError(error.code, { message: inSent(error.message), details, cause: error.cause });
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

type Renaming = { members: Members; prefix: string; issues: Issues };

/** Keeps the names of unknown members, so that the service reports them. Reports core names that this API does not use. */
function rename(given: unknown, { members, prefix, issues }: Renaming): unknown {
  if (!isObject(given)) return given;
  const renamed = dictionary<unknown>();
  let unknown = 0;
  // Not Object.entries: there can be many members, and no response lists more unknown ones than these.
  for (const name of Object.keys(given)) {
    const core = lookUp(members, name);
    if (core === undefined && ++unknown > MAX_ISSUES) break;
    const value = lookUp(given, name);
    if (core === undefined && isCoreName(members, name)) {
      issues.add(`${prefix}${name}`, 'UNKNOWN_MEMBER', `is not known${suggestion(name, Object.keys(members))}`);
      // Two names of one member: null counts as absent.
    } else if (core === undefined || lookUp(renamed, core) == null) renamed[core ?? name] = value;
  }
  return renamed;
}

const isCoreName = (members: Members, name: string): boolean => Object.values(members).includes(name);

/** The key determines the org. A request may repeat it, but not name another. */
function requireOwnOrg(orgId: unknown, identity: Identity): void {
  if (orgId === identity.orgId || orgId === null) return;
  const message = 'org_id is not the org of the API key';
  throw new AppError('FORBIDDEN', { message, details: [{ field: 'org_id', code: 'WRONG_ORG', message }] });
}

/** A key that is bound to a project submits jobs of that project only. A request may repeat it, but not name another. */
function ownProject(given: unknown, own: string): string {
  if (given == null || (typeof given === 'string' && given.toLowerCase() === own)) return own;
  const message = 'project_id is not the project of the API key';
  throw new AppError('FORBIDDEN', { message, details: [{ field: 'project_id', code: 'WRONG_PROJECT', message }] });
}

export function requirePriority(identity: Identity, priority: unknown): void {
  if (priority === 'CRITICAL') requireCritical(identity, 'priority');
}

function requireCritical(identity: Identity, field: string): void {
  if (identity.scopes.has('queue:critical')) return;
  const message = `${field}: critical jobs need an API key with the scope queue:critical`;
  throw new AppError('FORBIDDEN', { message, details: [{ field, code: 'MISSING_SCOPE', message }] });
}

/** How many members are renamed in one turn of the event loop. */
const MEMBERS_PER_TURN = 20_000;

export type ReadBatch = { submissions: Submission[]; refused: ReadonlyMap<number, AppError>; atomic: boolean };

/** Checks the batch itself. Each job of the batch is checked separately. */
export async function readBatch(body: unknown, asker: Asker): Promise<ReadBatch> {
  const issues = new Issues();
  if (!isObject(body)) throw invalidRequest({ field: 'body', code: 'INVALID_TYPE', message: 'body must be an object' });
  for (const name of Object.keys(body)) {
    if (issues.isFull) break;
    if (name === 'jobs' || name === 'atomic') continue;
    issues.add(name, 'UNKNOWN_MEMBER', `is not known${suggestion(name, ['jobs', 'atomic'])}`);
  }
  const { jobs, atomic = true } = body;
  if (!Array.isArray(jobs)) issues.add('jobs', 'INVALID_TYPE', 'must be a list of submissions');
  if (typeof atomic !== 'boolean') issues.add('atomic', 'INVALID_TYPE', 'must be true or false');
  issues.throwIfAny();
  const refused = new Map<number, AppError>();
  const submissions: Submission[] = [];
  const turns = new Turns(MEMBERS_PER_TURN);
  for (const [index, job] of (jobs as unknown[]).entries()) {
    const read = readOne(job, asker);
    if (read instanceof AppError) refused.set(index, read);
    submissions.push(read instanceof AppError ? (job as Submission) : read);
    const turn = turns.spend(isObject(job) ? Object.keys(job).length : 1);
    if (turn !== undefined) await turn;
  }
  return { submissions, refused, atomic: atomic as boolean };
}

/** Returns the error for a job that the key does not permit, so that the other jobs of the batch are not affected. */
function readOne(job: unknown, asker: Asker): Submission | AppError {
  try {
    const { submission, issues } = readSubmission(job, asker);
    return issues.length > 0 ? invalidSubmission(issues) : submission;
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}
