import { setTimeout as pause } from 'node:timers/promises';
import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { AppError } from '../../core/errors.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionTerms } from '../../engine/submit/prepared.ts';
import { isPassing, type Queryable } from '../../ledger/driver/statement.ts';
import { addPart, findPart, type NamedBatch } from '../../ledger/jobs/batches.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import type { Admission } from '../admission/admission.ts';
import { admitBatch } from '../admission/admit-batch.ts';
import { conflictingSubmission } from './submission-result.ts';
import { prepareAll, requireFewDependencies } from './submit-many.ts';

/** Jobs of a batch that are written by one transaction. `first`: how many jobs the pieces before it have, if that is known. */
export type Piece = { part: number; first: number | null; submissions: readonly Submission[]; fingerprint: string };

export type PieceParams = {
  batch: NamedBatch;
  piece: Piece;
  actor: string | null;
  terms?: SubmissionTerms;
  /** Submissions that the door refuses, by index. */
  refused?: ReadonlyMap<number, AppError>;
  /** The limit of the door. */
  admission?: Admission;
  /** Whether an earlier call may have written the piece. */
  mayBeThere: boolean;
  signal?: AbortSignal;
};

/** How long a piece is tried again while the database does not respond. */
const PATIENCE_MS = 30_000;

/** Submits a piece as a whole. One that is already there is not submitted again, so an attempt whose end is unknown may be repeated. */
export async function submitPiece(engine: Engine, params: PieceParams): Promise<void> {
  const startedMs = performance.now();
  let { mayBeThere } = params;
  let entries: JobToWrite[] | null = null;
  for (let failures = 0; ; failures++) {
    try {
      if (mayBeThere && (await isThere(engine, params))) return;
      mayBeThere = true;
      entries ??= await prepare(engine, params);
      return await writePiece(engine, params, entries);
    } catch (error) {
      const isTaken = error instanceof PieceTaken;
      if (isTaken && (await isThere(engine, params))) return;
      if (isTaken) throw closed(params.batch.id);
      if (!isPassing(error) || performance.now() - startedMs > PATIENCE_MS) throw error;
      await pause(pauseMs(PAUSES.roundFailed, failures, Math.random()), undefined, { signal: params.signal });
    }
  }
}

async function isThere(engine: Engine, { batch, piece }: PieceParams): Promise<boolean> {
  const known = await findPart(engine.database.api, batch.id, piece.part);
  if (known !== null && known !== piece.fingerprint) throw otherJobs(batch.id, piece);
  return known !== null;
}

/** Undoes the transaction: the batch has this piece, or accepts none. */
class PieceTaken extends Error {}

/** The jobs of a piece are prepared before its transaction, which holds a connection that preparing may need. */
async function prepare(engine: Engine, { batch, piece, actor, terms, refused }: PieceParams): Promise<JobToWrite[]> {
  const prepared = await prepareAll(engine, { orgId: batch.orgId, actor, submissions: piece.submissions, terms, refused });
  const entries = prepared.map((each, index) => {
    if (!each.ok) throw refusal(batch.id, piece, { index, error: each.error });
    return each.entry;
  });
  requireFewDependencies(entries);
  return entries;
}

async function writePiece(engine: Engine, { batch, piece, admission }: PieceParams, entries: readonly JobToWrite[]): Promise<void> {
  const { orgId } = batch;
  const writeIn = async (client: Queryable): Promise<Written[]> => {
    const written = await engine.writer.writeTogether(entries, client);
    const ids = written.map((each, index) => {
      if (each.kind === 'accepted') return each.id;
      if (each.kind !== 'duplicate' || each.sameRequest) return each.existingId;
      throw refusal(batch.id, piece, { index, error: conflictingSubmission(each.existingId) });
    });
    const { part, fingerprint } = piece;
    if (!(await addPart(client, { ...batch, part, fingerprint, jobIds: [...new Set(ids)] }))) throw new PieceTaken();
    return written;
  };
  const write = (_: readonly JobToWrite[], client?: Queryable) =>
    client === undefined ? engine.writer.transact(orgId, writeIn) : writeIn(client);
  await admitBatch(engine, admission, { orgId, entries, isWhole: true, write });
}

type Refused = { index: number; error: AppError };

function refusal(batchId: string, { part, first }: Piece, { index, error }: Refused): AppError {
  const at = (first ?? 0) + index;
  const details = error.details.map((issue) => ({ ...issue, field: `jobs[${at}].${issue.field}` }));
  const which = first === null ? `Job ${at} of piece ${part}` : `Job ${at}`;
  const rest = first === null ? 'No job of the piece is submitted.' : `The ${first} jobs of the pieces before it are submitted.`;
  const message = `${which} of the batch ${batchId} is refused: ${error.message.replace(/\.$/, '')}. ${rest}`;
  return new AppError(error.code, { message, details, cause: error });
}

const closed = (batchId: string): AppError =>
  new AppError('CONFLICT', { message: `All jobs of the batch ${batchId} are submitted, and it accepts no more. Choose another id.` });

const otherJobs = (batchId: string, { part, first, submissions }: Piece): AppError => {
  const which = first === null ? `The jobs of piece ${part}` : `Jobs ${first} to ${first + submissions.length - 1}`;
  return new AppError('CONFLICT', {
    message: `${which} of the batch ${batchId} were submitted before with other contents. Submit the same jobs in the same order, or choose another id.`,
  });
};
