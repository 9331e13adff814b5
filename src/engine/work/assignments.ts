import { AppError } from '../../core/errors.ts';
import type { AssigningJob, Assignments } from '../../core/governance/assignments.ts';
import type { Category } from '../../core/governance/category.ts';
import { requireCapability } from '../../core/governance/require-capability.ts';
import type { RunningAttempt } from './running-attempt.ts';

/** The payload of a planning job that may assign has this member and value. */
const COMMAND = 'assign';

export type AssigningParams = { attempt: RunningAttempt; job: AssigningJob; planning: Category | undefined };

export function assignmentsOf({ attempt, job, planning }: AssigningParams): Assignments {
  return {
    async write(assignment) {
      const { jobType, category, payload } = attempt.job;
      requireCapability(category, 'assignments', jobType);
      if (!isCommanded(payload)) {
        throw forbidden(`Job ${job.jobId} may not write assignments: its payload must contain "command": "${COMMAND}".`);
      }
      if (planning?.assignmentGrants.includes(jobType) !== true) {
        throw forbidden(`Jobs of type ${jobType} may not write assignments: the operator must list the type in ${GRANTS}.`);
      }
      const writer = attempt.registered.assignments;
      if (writer === undefined) {
        throw new AppError('INVALID_REQUEST', { message: `The registration of ${jobType} has no writer: register it with assignments.` });
      }
      await writer(assignment, job);
    },
  };
}

const GRANTS = 'assignment_grants of [categories.planning]';

const isCommanded = (payload: unknown): boolean =>
  typeof payload === 'object' &&
  payload !== null &&
  Object.hasOwn(payload, 'command') &&
  (payload as { command: unknown }).command === COMMAND;

const forbidden = (message: string): AppError => new AppError('FORBIDDEN', { message });
