import { AppError } from '../../core/errors.ts';
import { executionStateOf, outcomeOf } from '../../core/execution/states.ts';
import type { Caller, ExecutionContext } from './context.ts';
import { type ExecutionReport, reportOf, withEvents } from './execution-history.ts';
import { noSuchExecution, ownedExecution } from './read-execution.ts';

/** What became of a job that has ended, with every change of its state. */
export async function reportExecution(c: ExecutionContext, caller: Caller, id: string): Promise<ExecutionReport> {
  const [remembered] = await withEvents(c, caller.clientId, [await ownedExecution(c, caller, id)]);
  if (remembered === undefined) throw noSuchExecution(id);
  const { job, events } = remembered;
  const report = reportOf(job, events);
  if (report !== null) return report;
  const state = executionStateOf(job);
  const message =
    outcomeOf(state) === null
      ? `Job ${id} has no report yet: it is ${state}.`
      : `The report of job ${id} is not there any more.`;
  throw new AppError('NOT_FOUND', { message, problem: 'RFA_JOB_NOT_FOUND' });
}
