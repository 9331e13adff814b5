import { AppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Engine } from '../../engine/engine.ts';
import { readJob } from '../../services/jobs/read-job.ts';
import { type Identity, refusedTo } from '../shared/identity.ts';

const ASK = 'For other job types, ask the operator of this server for a key: millrace keys create.';

/** A client that registered itself runs the execution API's jobs only. Every other type belongs to handlers of the operator. */
export function refuseSelfRegistered(identity: Identity): void {
  if (!identity.isSelfRegistered) return;
  throw refusal(identity, `The API key comes from registration at /v1: submit its jobs there, with POST /v1/jobs. ${ASK}`);
}

/**
 * Refuses a change that would run a job of another type. The check may come before the change: no job changes from or to the
 * type of the execution API.
 */
export async function requireOwnType(engine: Engine, identity: Identity, id: string): Promise<void> {
  if (!identity.isSelfRegistered) return;
  const job = await readJob(engine, { orgId: identity.orgId, projectId: identity.projectId, id });
  if (job === null || job.type === EXECUTION_TYPE) return;
  throw refusal(identity, `The API key comes from registration at /v1, so it can change jobs of /v1 only. ${ASK}`);
}

function refusal({ orgId }: Identity, message: string): AppError {
  return refusedTo(orgId, new AppError('FORBIDDEN', { message, details: [{ field: 'authorization', code: 'SELF_REGISTERED', message }] }));
}
