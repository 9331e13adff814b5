import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import { type CheckedUpdate, checkUpdate, type JobUpdate } from '../../core/job-change.ts';
import type { Owner } from '../../core/owner.ts';
import { RESERVED_PREFIXES, reservedMember } from '../../core/submission-members.ts';
import type { Engine } from '../../engine/engine.ts';
import { updateJob as updateInLedger } from '../../ledger/jobs/update-job.ts';
import { type JobReport, readJob } from './read-job.ts';

const TOO_LATE = {
  job: 'has ended and can no longer be changed',
  priority: 'has been started, so its priority can no longer be changed',
  type: 'has been started, so its type can no longer be changed',
} as const;

export type UpdateParams = Owner & {
  id: string;
  update: JobUpdate;
  requester?: Requester;
  /** Reads the changed job. */
  read?: typeof readJob;
};

/** Changes a job that has not ended, and returns it. Returns null if the owner has no such job. */
export async function updateJob(engine: Engine, params: UpdateParams): Promise<JobReport | null> {
  const { orgId, projectId, id, update, requester, read = readJob } = params;
  const checked = checkUpdate(update, engine.limits);
  if (!checked.ok) throw new AppError('INVALID_REQUEST', { details: checked.issues });
  const { type } = checked.change;
  if (type !== undefined && engine.registrationOf(type) === undefined)
    throw invalidRequest({
      field: 'type',
      code: 'UNKNOWN_TYPE',
      message: `No worker has registered the type ${type}.`,
    });
  if (!isUuid(id)) return null;
  if (checked.change.callbackUrl != null) await engine.callbackOrgs.ensure(orgId);
  const asked = { orgId, projectId, id, change: checked.change, reservedPrefixes: RESERVED_PREFIXES, requester };
  const updated = await engine.heldJobs.run((client) => updateInLedger(client, asked));
  if (updated.kind === 'not_found') return null;
  if (updated.kind === 'reserved') throw reserved(checked.change, updated.type);
  if (updated.kind === 'too_late') throw new AppError('CONFLICT', { message: `Job ${id} ${TOO_LATE[updated.field]}.` });
  engine.hint('ready');
  return read(engine, { orgId, projectId, id });
}

const KEPT_OF_RESERVED = ['type', 'priority', 'tags'] as const;

function reserved(change: CheckedUpdate, type: string): AppError {
  const asked = KEPT_OF_RESERVED.filter((member) => change[member] !== undefined);
  return invalidRequest(...asked.map((member) => reservedMember(member, type)));
}
