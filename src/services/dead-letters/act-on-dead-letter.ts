import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { checkPatch, type PatchStep } from '../../core/governance/payload-patch.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Correction } from '../../engine/operations/correct-payload.ts';
import type { DeadLetterDesk, DeskRequest, Refusal } from '../../engine/operations/dead-letter-desk.ts';
import { reportMoves } from '../../engine/report-moves.ts';
import { getJob } from '../../ledger/reads/get-job.ts';
import { checkReason, noSuchEntry } from './dead-letter-request.ts';

export type ActParams = Owner & { id: string; requester: Requester };

/** A new payload, or a patch of the old one. Exactly one of the two. */
export type CorrectionRequest = { payload?: unknown; patch?: readonly PatchStep[] };

/** Runs a dead-lettered job again with fresh attempts. Throws NOT_FOUND, or CONFLICT if the entry is not open. */
export async function replayDeadLetter(engine: Engine, params: ActParams): Promise<{ jobId: string; state: 'scheduled' | 'delayed' }> {
  const replayed = await act(engine, params, (desk, client, request) => desk.replay(client, request));
  reportMoves(engine.events, [replayed.moved], params.requester);
  return { jobId: params.id, state: replayed.state };
}

/** Closes an entry without running its job. Throws NOT_FOUND, or CONFLICT if the entry is not open. */
export async function discardDeadLetter(
  engine: Engine,
  params: ActParams,
): Promise<{ jobId: string; status: 'discarded'; undoUntil: Date }> {
  const { undoUntil } = await act(engine, params, (desk, client, request) => desk.discard(client, request));
  return { jobId: params.id, status: 'discarded', undoUntil };
}

/** Undoes a discard. Throws NOT_FOUND, or CONFLICT if the entry is not discarded or the time for it is over. */
export async function restoreDeadLetter(engine: Engine, params: ActParams): Promise<{ jobId: string; status: 'open' }> {
  const restored = await act(engine, params, (desk, client, request) => desk.restore(client, request));
  if (restored.kind === 'too_late')
    throw new AppError('CONFLICT', {
      message: 'The time to undo the discard is over (deadletter.undo_window). Submit the work as a new job.',
    });
  return { jobId: params.id, status: 'open' };
}

/** Submits a new job with a corrected payload in the place of a dead-lettered one. Throws NOT_FOUND, CONFLICT or INVALID_REQUEST. */
export async function fixForward(engine: Engine, params: ActParams & CorrectionRequest): Promise<{ jobId: string; replacesJobId: string }> {
  const correction = readCorrection(params);
  const { jobId } = await act(engine, params, (desk, client, request) => desk.fixForward(client, { ...request, correction }));
  return { jobId, replacesJobId: params.id };
}

/** Throws INVALID_REQUEST unless there is exactly one valid correction. */
export function readCorrection({ payload, patch }: CorrectionRequest): Correction {
  if ((payload === undefined) === (patch === undefined))
    throw invalidRequest({ field: 'payload', code: 'INVALID_VALUE', message: 'Send either payload or patch, and not both.' });
  if (patch === undefined) return { kind: 'payload', payload };
  const issues = checkPatch(patch);
  if (issues.length > 0) throw invalidRequest(...issues);
  return { kind: 'patch', patch };
}

type Client = Parameters<DeadLetterDesk['replay']>[0];

/** Acts in a transaction that waits for no lock of another one for long. */
async function act<Result extends { kind: string }>(
  engine: Engine,
  { id, requester, orgId, projectId }: ActParams,
  work: (desk: DeadLetterDesk, client: Client, request: DeskRequest) => Promise<Result | Refusal>,
): Promise<Exclude<Result, Refusal>> {
  checkReason(requester.reason);
  if (!isUuid(id)) throw noSuchEntry(id);
  const request = { orgId, projectId, jobId: id.toLowerCase(), requester };
  const result = await engine.writer.transact(orgId, async (client) => {
    const done = await work(engine.deadLetters.desk, client, request);
    // Nothing of a refused action must stay.
    if (isRefusal(done)) throw done.kind === 'not_found' ? await absent(client, request) : errorOf(id, done);
    return done;
  });
  return result as Exclude<Result, Refusal>;
}

const REFUSALS: ReadonlySet<string> = new Set<Refusal['kind']>(['not_found', 'held', 'not_open', 'refused']);
const isRefusal = (result: { kind: string }): result is Refusal => REFUSALS.has(result.kind);

/** The error for a job without a dead letter: CONFLICT if the job exists, else NOT_FOUND. */
async function absent(client: Client, { orgId, projectId, jobId }: DeskRequest): Promise<AppError> {
  const job = await getJob(client, { orgId, projectId }, jobId);
  if (job === null) return noSuchEntry(jobId);
  return new AppError('CONFLICT', { message: `The job ${jobId} is not a dead letter: it is ${job.state}.` });
}

function errorOf(id: string, refusal: Exclude<Refusal, { kind: 'not_found' }>): AppError {
  if (refusal.kind === 'refused') return refusal.error;
  const status = refusal.kind === 'held' ? 'in use' : refusal.status;
  return new AppError('CONFLICT', { message: `The dead letter of the job ${id} is ${status}. Read it again, then decide what to do.` });
}
