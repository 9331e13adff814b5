import type pg from 'pg';
import { AppError, type Issue } from '../../core/errors.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import { keyHeld } from '../../engine/submit/job-writer.ts';
import { RefusedEntries } from '../../engine/submit/placement.ts';
import type { Prepared } from '../../engine/submit/submitter.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import type { Admission } from '../admission/admission.ts';
import { admitBatch, type Outcome } from '../admission/admit-batch.ts';
import { isQueueFull } from '../admission/queue-admission.ts';
import {
  acceptedResult,
  conflictingSubmission,
  invalidSubmission,
  type RejectedSubmission,
  type SubmissionResult,
} from './submission-result.ts';
import { resultOf } from './submit-job.ts';

export const MAX_BATCH = 1_000;

export type BatchResult = {
  total: number;
  accepted: number;
  rejected: number;
  results: (SubmissionResult | RejectedSubmission)[];
};

export type SubmitManyParams = {
  orgId: string;
  submissions: readonly Submission[];
  atomic: boolean;
  actor: string | null;
  client?: pg.ClientBase;
  /** By index: why a door does not take a submission. Such a submission is rejected. */
  refused?: ReadonlyMap<number, AppError>;
  /** Of the request that brought them all. */
  requestId?: string;
  knownQueuesOnly?: boolean;
  /** Where whoever asks may fill the queue only so far; in the caller's own transaction nothing is limited. */
  admission?: Admission;
};

type Answer = SubmissionResult | RejectedSubmission;

/** Accepts 1 to 1000 jobs: all or none when atomic, the valid ones otherwise. */
export async function submitMany(engine: Engine, params: SubmitManyParams): Promise<BatchResult> {
  const { submissions, atomic, client } = params;
  if (client !== undefined) await requireTransaction(client);
  if (!Array.isArray(submissions) || submissions.length < 1 || submissions.length > MAX_BATCH)
    throw wrongSize(submissions?.length);
  const prepared = await prepareAll(engine, params);
  const isBroken = prepared.some((each) => !each.ok);
  if (atomic && isBroken) return summary(prepared.map((each) => (each.ok ? aborted() : rejected(each.error))));
  const entries: JobToWrite[] = [];
  for (const each of prepared) if (each.ok) entries.push(each.entry);
  if (atomic) return submitAll(engine, params, entries);
  const answers = await submitEach(engine, params, entries);
  return summary(prepared.map((each) => (each.ok ? (answers.shift() as Answer) : rejected(each.error))));
}

type Judged = { ok: true; entry: JobToWrite } | { ok: false; error: AppError };

function prepareAll(engine: Engine, params: SubmitManyParams): Promise<Judged[]> {
  const { orgId, submissions, actor, refused, requestId, knownQueuesOnly } = params;
  const options = { requestId, knownQueuesOnly };
  // All at once: what is new to the ledger in a batch is introduced together.
  return Promise.all(
    submissions.map((submission, index): Judged | Promise<Judged> => {
      const error = refused?.get(index);
      if (error !== undefined) return { ok: false, error };
      const preparing = engine.submitter.prepare(orgId, submission, actor, options);
      return preparing instanceof Promise ? preparing.then(judged) : judged(preparing);
    }),
  );
}

const judged = (prepared: Prepared): Judged =>
  prepared.ok ? prepared : { ok: false, error: invalidSubmission(prepared.issues) };

async function submitAll(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<BatchResult> {
  try {
    const written = await writeAll(engine, params, entries);
    return summary(await answersOf(engine, params, written));
  } catch (error) {
    if (error instanceof BatchConflict) return summary(error.answers);
    if (error instanceof RefusedEntries) return summary(entries.map((entry) => refusalOf(error.refused.get(entry))));
    // Of jobs that stand each for itself, the others must be told what became of them.
    if (params.atomic || !isQueueFull(error)) throw error;
    return summary(entries.map(() => rejected(error)));
  }
}

/** A key that stands for another request refuses the whole batch, so the keys are looked at before the commit. */
async function writeAll(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<Outcome[]> {
  const { orgId, client: own, admission } = params;
  const write = (all: readonly JobToWrite[], client?: pg.ClientBase) =>
    engine.submitter.writePlaced(all, client, refuseConflicts);
  if (own === undefined) return admitBatch(engine, admission, { orgId, entries, isWhole: true, write });
  // The caller's transaction holds what was written; its error tells the caller to roll it back.
  return write(entries, own).catch((error) => {
    throw error instanceof BatchConflict ? error.first : error;
  });
}

function refuseConflicts(written: readonly Written[]): void {
  if (!written.some(isConflict)) return;
  throw new BatchConflict(
    written.map((each) => (isConflict(each) ? rejected(conflictingSubmission(each.existingId)) : aborted())),
  );
}

type Conflict = Written & { kind: 'duplicate' };

const isConflict = (written: Written): written is Conflict => written.kind === 'duplicate' && !written.sameRequest;

class BatchConflict extends Error {
  readonly answers: RejectedSubmission[];

  constructor(answers: RejectedSubmission[]) {
    super('a key of the batch stands for another request');
    this.answers = answers;
  }

  get first(): AppError | undefined {
    return this.answers.find(({ error }) => error.code === 'DUPLICATE')?.error;
  }
}

/** Jobs without dependencies share statements; with them each stands alone, so that one refusal spares the others. */
async function submitEach(engine: Engine, params: SubmitManyParams, entries: JobToWrite[]): Promise<Answer[]> {
  if (entries.length === 0) return [];
  if (entries.every((entry) => entry.job.dependsOn.length === 0)) {
    const { orgId, client: own, admission } = params;
    if (own !== undefined) return answersOf(engine, params, await engine.submitter.writePlaced(entries, own));
    const write = (all: readonly JobToWrite[], client?: pg.ClientBase) =>
      client === undefined ? engine.submitter.writeEach(all) : writeBeside(engine, all, client);
    const written = await admitBatch(engine, admission, { orgId, entries, isWhole: false, write });
    return answersOf(engine, params, written);
  }
  const answers: Answer[] = [];
  for (const entry of entries) {
    const { results } = await submitAll(engine, params, [entry]);
    answers.push(results[0] as Answer);
  }
  return answers;
}

/** For the transaction that admits jobs of many callers: it must not wait for a held key. */
async function writeBeside(engine: Engine, entries: readonly JobToWrite[], client: pg.ClientBase): Promise<Outcome[]> {
  const attempted = await engine.submitter.write(client, entries);
  return attempted.map((each) => (each.kind === 'held' ? keyHeld() : each));
}

/** The jobs of repeats are read together; in the caller's transaction one after the other. */
async function answersOf(engine: Engine, params: SubmitManyParams, outcomes: readonly Outcome[]): Promise<Answer[]> {
  if (params.client === undefined) return Promise.all(outcomes.map((each) => answerTo(engine, params, each)));
  const answers: Answer[] = [];
  for (const each of outcomes) answers.push(await answerTo(engine, params, each));
  return answers;
}

function answerTo(engine: Engine, params: SubmitManyParams, outcome: Outcome): Answer | Promise<Answer> {
  if (outcome instanceof AppError) return rejected(outcome);
  return outcome.kind === 'accepted' ? acceptedResult(outcome) : answerOf(engine, params, outcome);
}

async function answerOf(engine: Engine, { orgId, client }: SubmitManyParams, written: Written): Promise<Answer> {
  try {
    return await resultOf(engine, { orgId, written, client });
  } catch (error) {
    if (error instanceof AppError) return rejected(error);
    throw error;
  }
}

function summary(results: Answer[]): BatchResult {
  const count = results.filter((result) => result.status === 'REJECTED').length;
  return { total: results.length, accepted: results.length - count, rejected: count, results };
}

const refusalOf = (issues: readonly Issue[] | undefined): RejectedSubmission =>
  issues === undefined ? aborted() : rejected(invalidSubmission(issues));

const rejected = (error: AppError): RejectedSubmission => ({ jobId: null, status: 'REJECTED', error });

function aborted(): RejectedSubmission {
  const message = 'Another job of the batch is not valid, and the batch is all or nothing.';
  return rejected(
    new AppError('INVALID_REQUEST', { message, details: [{ field: 'jobs', code: 'BATCH_ABORTED', message }] }),
  );
}

function wrongSize(size: number | undefined): AppError {
  const message = `A batch has 1 to ${MAX_BATCH} jobs, this one has ${size ?? 'none'}.`;
  return new AppError('INVALID_REQUEST', { message, details: [{ field: 'jobs', code: 'OUT_OF_RANGE', message }] });
}
