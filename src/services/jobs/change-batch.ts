import { createHash } from 'node:crypto';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Submission } from '../../core/submission.ts';
import { Turns } from '../../core/turns.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionTerms } from '../../engine/submit/prepared.ts';
import { closeBatch, hasBatch, openBatch } from '../../ledger/jobs/batches.ts';
import type { Admission } from '../admission/admission.ts';
import { submitPiece } from './batch-piece.ts';
import { noSuchBatch } from './batch-progress.ts';
import { takenBatch } from './submit-batch.ts';
import { MAX_BATCH } from './submit-many.ts';

export type BatchOfOwner = { owner: Owner; id: string };

/** Creates an empty batch, unless the owner has it already. */
export async function createBatch(engine: Engine, { owner, id }: BatchOfOwner): Promise<{ id: string; isNew: boolean }> {
  if (!isUuid(id)) throw invalidRequest({ field: 'batch_id', code: 'INVALID_ID', message: 'batch_id must be a UUID' });
  const opened = await openBatch(engine.database.api, owner, id.toLowerCase());
  if (opened === null) throw takenBatch(id);
  return { id: id.toLowerCase(), isNew: opened.isNew };
}

export type PutPieceParams = BatchOfOwner & {
  /** The number of the piece. */
  part: number;
  /** The jobs as the caller sent them. They decide whether a piece is a repeat. */
  sent: readonly unknown[];
  submissions: readonly Submission[];
  refused: ReadonlyMap<number, AppError>;
  actor: string;
  terms: SubmissionTerms;
  admission: Admission;
  signal?: AbortSignal;
};

/** Submits a piece of a batch, all jobs or none. A piece that is there already is not submitted again. */
export async function putPiece(engine: Engine, params: PutPieceParams): Promise<void> {
  const { owner, part, sent, submissions, ...rest } = params;
  if (submissions.length < 1 || submissions.length > MAX_BATCH) {
    const message = `A piece of a batch must have 1 to ${MAX_BATCH} jobs; this one has ${submissions.length}.`;
    throw invalidRequest({ field: 'jobs', code: 'OUT_OF_RANGE', message });
  }
  const batch = { orgId: owner.orgId, id: await requireBatch(engine, params) };
  const fingerprint = await fingerprintOf(sent);
  await submitPiece(engine, { ...rest, batch, piece: { part, first: null, submissions, fingerprint }, mayBeThere: true });
}

/** The batch gets no further piece. Closing it again changes nothing. */
export async function finishBatch(engine: Engine, params: BatchOfOwner): Promise<void> {
  await closeBatch(engine.database.api, { orgId: params.owner.orgId, id: await requireBatch(engine, params) });
}

async function requireBatch(engine: Engine, { owner, id }: BatchOfOwner): Promise<string> {
  const own = id.toLowerCase();
  if (isUuid(own) && (await hasBatch(engine.database.api, owner, own))) return own;
  throw noSuchBatch(id);
}

/** Characters in one turn of the event loop. */
const TEXT_PER_TURN = 1_048_576;

async function fingerprintOf(sent: readonly unknown[]): Promise<string> {
  const hash = createHash('sha256');
  const turns = new Turns(TEXT_PER_TURN);
  for (const job of sent) {
    const text = JSON.stringify(job) ?? '';
    hash.update(text).update('\n');
    const turn = turns.spend(text.length);
    if (turn !== undefined) await turn;
  }
  return hash.digest('hex');
}
