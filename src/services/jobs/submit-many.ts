import { AppError, type Issue, invalidRequest } from '../../core/errors.ts';
import { lengthOf } from '../../core/payload.ts';
import type { NewJob, NormalizedSubmission, Submission } from '../../core/submission.ts';
import { Turns } from '../../core/turns.ts';
import type { Engine } from '../../engine/engine.ts';
import { keyHeld } from '../../engine/submit/job-writer.ts';
import { RefusedEntries } from '../../engine/submit/placement.ts';
import type { Prepared, SubmissionTerms } from '../../engine/submit/prepared.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import type { Admission } from '../admission/admission.ts';
import { admitBatch, type Outcome } from '../admission/admit-batch.ts';
import { requireOpenQueues } from '../admission/queue-intake.ts';
import { entryOf, learnType, normalize } from './prepare-submission.ts';
import {
  acceptedResult,
  conflictingSubmission,
  invalidSubmission,
  type RejectedSubmission,
  type SubmissionResult,
  withDerivedKey,
} from './submission-result.ts';
import { resultOf } from './submit-job.ts';

export const MAX_BATCH = 1_000;

/** In all jobs of a batch together. One statement locks them. */
const MAX_BATCH_DEPENDENCIES = 100_000;

/** The result of a batch. */
export type BatchResult = {
  /** The number of submissions. */
  total: number;
  /** How many of them are jobs now. Duplicates count. */
  accepted: number;
  /** How many were not accepted. */
  rejected: number;
  /** One result for each submission, in order. */
  results: Result[];
};

export type SubmitManyParams = {
  orgId: string;
  submissions: readonly Submission[];
  atomic: boolean;
  actor: string | null;
  client?: Queryable;
  /** Submissions that the door refuses, by index. They are rejected with these errors. */
  refused?: ReadonlyMap<number, AppError>;
  terms?: SubmissionTerms;
  /** The limit of the door. It does not apply inside the caller's transaction. */
  admission?: Admission;
  /** Once it is aborted, no further job is written. */
  signal?: AbortSignal;
};

type Result = SubmissionResult | RejectedSubmission;

/** Accepts 1 to 1000 jobs: all or none if atomic, otherwise the valid ones. */
export async function submitMany(engine: Engine, params: SubmitManyParams): Promise<BatchResult> {
  const { submissions, atomic, client } = params;
  if (client !== undefined) await requireTransaction(client);
  if (!Array.isArray(submissions) || submissions.length < 1 || submissions.length > MAX_BATCH) throw wrongSize(submissions?.length);
  const prepared = await prepareAll(engine, params);
  params.signal?.throwIfAborted();
  const isBroken = prepared.some((each) => !each.ok);
  if (atomic && isBroken) return summary(prepared.map((each) => (each.ok ? aborted() : rejected(each.error))));
  const entries: JobToWrite[] = [];
  for (const each of prepared) if (each.ok) entries.push(each.entry);
  requireFewDependencies(entries);
  if (client !== undefined) await requireOpenQueues(engine, params.orgId, entries);
  if (atomic) return submitAll(engine, params, entries);
  const results = await submitEach(engine, params, entries);
  return summary(prepared.map((each) => (each.ok ? (results.shift() as Result) : rejected(each.error))));
}

type JobsToPrepare = Pick<SubmitManyParams, 'orgId' | 'submissions' | 'actor' | 'refused' | 'terms'>;

type Judged = { ok: true; entry: JobToWrite } | { ok: false; error: AppError };

/** The work of preparing a job, in addition to the bytes of its payload. A turn takes below 10 ms. */
const WORK_PER_JOB = 256;
const WORK_PER_DEPENDENCY = 8;
const WORK_PER_TURN = 262_144;

/** Validates jobs and resolves their policies. Returns the error of each that is not valid. */
export async function prepareAll(engine: Engine, params: JobsToPrepare): Promise<Judged[]> {
  const normalized = await normalizeAll(engine, params);
  // All at the same time, so that new policies and queues of a batch share their statements.
  return whenAll(
    normalized.map((each): Judged | Promise<Judged> => {
      if (each instanceof AppError) return { ok: false, error: each };
      const prepared = entryOf(engine, each, params);
      return prepared instanceof Promise ? prepared.then(judged) : judged(prepared);
    }),
  );
}

/** Promise.all makes a promise of every value. Here there is mostly none to wait for. */
const whenAll = <T extends object>(values: (T | Promise<T>)[]): T[] | Promise<T[]> =>
  values.some((value) => value instanceof Promise) ? Promise.all(values) : (values as T[]);

const judged = (prepared: Prepared): Judged => (prepared.ok ? prepared : { ok: false, error: invalidSubmission(prepared.issues) });

/** Validates jobs in several turns of the event loop, and returns the error of each that is not valid. */
async function normalizeAll(engine: Engine, params: JobsToPrepare): Promise<(NewJob | AppError)[]> {
  const { orgId, submissions, actor, refused, terms } = params;
  const turns = new Turns(WORK_PER_TURN);
  const all: (NewJob | AppError)[] = [];
  for (const [index, submission] of submissions.entries()) {
    const error = refused?.get(index);
    if (error !== undefined) {
      all.push(error);
      continue;
    }
    const learning = learnType(engine, submission);
    if (learning !== undefined) await learning;
    const normalized = normalize(engine, { orgId, submission, actor, terms });
    const whole = normalized.ok && normalized.complete !== undefined ? await normalized.complete() : normalized;
    all.push(whole.ok ? whole.job : invalidSubmission(whole.issues));
    const turn = turns.spend(workOf(normalized));
    if (turn !== undefined) await turn;
  }
  return all;
}

/** The length of a refused payload is not known, so such a job ends the turn. */
function workOf(normalized: NormalizedSubmission): number {
  if (!normalized.ok) return WORK_PER_TURN;
  const { payload, dependsOn } = normalized.job;
  return WORK_PER_JOB + lengthOf(payload) + dependsOn.length * WORK_PER_DEPENDENCY;
}

async function submitAll(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<BatchResult> {
  try {
    const written = await writeAll(engine, params, entries);
    return summary(await resultsOf(engine, params, { entries, outcomes: written }));
  } catch (error) {
    if (error instanceof BatchConflict) return summary(error.results);
    if (error instanceof RefusedEntries) return summary(entries.map((entry) => refusalOf(error.refused.get(entry))));
    // In a batch that is not atomic, a full queue rejects this job and the others still get their results.
    if (params.atomic || params.admission?.isFull(error) !== true) throw error;
    return summary(entries.map(() => rejected(error)));
  }
}

/** A key that belongs to another request refuses the whole batch, so keys are checked before the commit. */
async function writeAll(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<Outcome[]> {
  const { orgId, client: own, admission } = params;
  const write = (all: readonly JobToWrite[], client?: Queryable) => engine.writer.writeTogether(all, client, refuseConflicts);
  if (own === undefined) return admitBatch(engine, admission, { orgId, entries, isWhole: true, write });
  // The caller's transaction contains the writes, so the error must tell the caller to roll back.
  return write(entries, own).catch((error) => {
    throw error instanceof BatchConflict ? error.first : error;
  });
}

function refuseConflicts(written: readonly Written[]): void {
  if (!written.some(isConflict)) return;
  throw new BatchConflict(written.map((each) => (isConflict(each) ? rejected(conflictingSubmission(each.existingId)) : aborted())));
}

type Conflict = Written & { kind: 'duplicate' };

const isConflict = (written: Written): written is Conflict => written.kind === 'duplicate' && !written.sameRequest;

class BatchConflict extends Error {
  readonly results: RejectedSubmission[];

  constructor(results: RejectedSubmission[]) {
    super('an idempotency key of the batch belongs to another request');
    this.results = results;
  }

  get first(): AppError | undefined {
    return this.results.find(({ error }) => error.code === 'DUPLICATE')?.error;
  }
}

/** Jobs without dependencies share statements. Jobs with dependencies are written one by one, so that a refusal affects only one. */
async function submitEach(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<Result[]> {
  if (entries.length === 0) return [];
  if (entries.every((entry) => entry.job.dependsOn.length === 0)) {
    const { orgId, client: own, admission } = params;
    if (own !== undefined) return resultsOf(engine, params, { entries, outcomes: await engine.writer.writeTogether(entries, own) });
    const write = (all: readonly JobToWrite[], client?: Queryable) =>
      client === undefined ? engine.writer.writeEach(all) : writeUnheld(engine, all, client);
    const written = await admitBatch(engine, admission, { orgId, entries, isWhole: false, write });
    return resultsOf(engine, params, { entries, outcomes: written });
  }
  const results: Result[] = [];
  for (const entry of entries) {
    params.signal?.throwIfAborted();
    results.push(...(await submitAll(engine, params, [entry])).results);
  }
  return results;
}

/** The transaction that admits jobs of many callers must not wait for a held key. */
async function writeUnheld(engine: Engine, entries: readonly JobToWrite[], client: Queryable): Promise<Outcome[]> {
  const attempted = await engine.writer.write(entries, client);
  return attempted.map((each) => (each.kind === 'held' ? keyHeld() : each));
}

type WrittenJobs = { entries: readonly JobToWrite[]; outcomes: readonly Outcome[] };

/** Reads the jobs of repeated requests concurrently, but one after the other inside the caller's transaction. */
async function resultsOf(engine: Engine, params: SubmitManyParams, { entries, outcomes }: WrittenJobs): Promise<Result[]> {
  const shown = (result: Result, index: number): Result => withDerivedKey(result, entries[index] as JobToWrite);
  if (params.client === undefined) return (await whenAll(outcomes.map((each) => resultFor(engine, params, each)))).map(shown);
  const results: Result[] = [];
  for (const each of outcomes) results.push(await resultFor(engine, params, each));
  return results.map(shown);
}

function resultFor(engine: Engine, params: SubmitManyParams, outcome: Outcome): Result | Promise<Result> {
  if (outcome instanceof AppError) return rejected(outcome);
  return outcome.kind === 'accepted' ? acceptedResult(outcome) : repeatResult(engine, params, outcome);
}

async function repeatResult(engine: Engine, { orgId, client }: SubmitManyParams, written: Written): Promise<Result> {
  try {
    return await resultOf(engine, { orgId, written, client });
  } catch (error) {
    if (error instanceof AppError) return rejected(error);
    throw error;
  }
}

function summary(results: Result[]): BatchResult {
  const count = results.filter((result) => result.status === 'REJECTED').length;
  return { total: results.length, accepted: results.length - count, rejected: count, results };
}

const refusalOf = (issues: readonly Issue[] | undefined): RejectedSubmission =>
  issues === undefined ? aborted() : rejected(invalidSubmission(issues));

const rejected = (error: AppError): RejectedSubmission => ({ jobId: null, status: 'REJECTED', error });

function aborted(): RejectedSubmission {
  const message = 'Another job of the batch is not valid, and the batch is atomic. Correct that job, or send atomic: false.';
  return rejected(invalidRequest({ field: 'jobs', code: 'BATCH_ABORTED', message }));
}

export function requireFewDependencies(entries: readonly JobToWrite[]): void {
  const count = entries.reduce((sum, { job }) => sum + job.dependsOn.length, 0);
  if (count <= MAX_BATCH_DEPENDENCIES) return;
  const message = `The jobs of a batch must have at most ${MAX_BATCH_DEPENDENCIES} dependencies together; these have ${count}. Send several batches.`;
  throw invalidRequest({ field: 'jobs', code: 'DEPENDENCY_BREADTH', message });
}

function wrongSize(size: number | undefined): AppError {
  const message = `A batch must have 1 to ${MAX_BATCH} jobs; this one has ${size ?? 0}.`;
  return invalidRequest({ field: 'jobs', code: 'OUT_OF_RANGE', message });
}
