import { createHash, type Hash, randomUUID } from 'node:crypto';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import { closeBatch, openBatch } from '../../ledger/jobs/batches.ts';
import { type Piece, submitPiece } from './batch-piece.ts';
import { MAX_BATCH } from './submit-many.ts';

export type SubmitBatchParams = {
  orgId: string;
  submissions: Iterable<Submission> | AsyncIterable<Submission>;
  /** The id of the batch. A repeated call with the same id and the same jobs submits those that are missing. */
  id?: string;
  actor: string | null;
  signal?: AbortSignal;
};

/** A piece is written by one transaction. It ends at this many bytes, so that memory stays bounded. */
const MAX_PIECE_BYTES = 4 * 1_048_576;

/**
 * Submits any number of jobs, in pieces of at most 1000, and returns the id of their batch. It takes the next jobs from the source only
 * when the piece before is stored. Each piece is accepted or refused as a whole.
 */
export async function submitBatch(engine: Engine, params: SubmitBatchParams): Promise<string> {
  const { orgId, submissions, id = randomUUID(), actor, signal } = params;
  if (!isUuid(id)) throw invalidRequest({ field: 'id', code: 'INVALID_ID', message: 'id must be a UUID, for example crypto.randomUUID()' });
  const batch = { orgId, id: id.toLowerCase() };
  // Without an id of the caller, only an attempt of this call can have written a piece.
  const mayBeThere = params.id !== undefined;
  if ((await openBatch(engine.database.api, wholeOrg(orgId), batch.id)) === null) throw takenBatch(batch.id);
  let jobs = 0;
  for await (const piece of piecesOf(submissions)) {
    signal?.throwIfAborted();
    await submitPiece(engine, { batch, piece, actor, mayBeThere, signal });
    jobs += piece.submissions.length;
  }
  if (jobs === 0) throw invalidRequest({ field: 'jobs', code: 'OUT_OF_RANGE', message: 'A batch must have at least one job.' });
  signal?.throwIfAborted();
  await closeBatch(engine.database.api, batch);
  return batch.id;
}

export const takenBatch = (id: string): AppError =>
  new AppError('CONFLICT', { message: `The id ${id} belongs to another batch. Choose another one.` });

async function* piecesOf(submissions: SubmitBatchParams['submissions']): AsyncGenerator<Piece> {
  if (typeof submissions !== 'object' || submissions === null || !(Symbol.iterator in submissions || Symbol.asyncIterator in submissions)) {
    const message = 'jobs must be a list or another iterable of submissions';
    throw invalidRequest({ field: 'jobs', code: 'INVALID_TYPE', message });
  }
  let piece = new PieceBuilder(0, 0);
  for await (const submission of submissions) {
    piece.add(submission);
    if (!piece.isFull) continue;
    yield piece.build();
    piece = new PieceBuilder(piece.part + 1, piece.first + piece.submissions.length);
  }
  if (piece.submissions.length > 0) yield piece.build();
}

class PieceBuilder {
  readonly submissions: Submission[] = [];
  readonly part: number;
  readonly first: number;
  readonly #hash: Hash = createHash('sha256');
  #bytes = 0;

  constructor(part: number, first: number) {
    this.part = part;
    this.first = first;
  }

  get isFull(): boolean {
    return this.submissions.length >= MAX_BATCH || this.#bytes >= MAX_PIECE_BYTES;
  }

  add(submission: Submission): void {
    const text = textOf(submission);
    this.#hash.update(text).update('\n');
    this.#bytes += text.length;
    this.submissions.push(submission);
  }

  build(): Piece {
    const { part, first, submissions } = this;
    return { part, first, submissions, fingerprint: this.#hash.digest('hex') };
  }
}

/** What has no JSON form is refused later, with its path. */
function textOf(submission: Submission): string {
  try {
    return JSON.stringify(submission) ?? '';
  } catch {
    return '';
  }
}
