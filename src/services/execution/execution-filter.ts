import { EXECUTION_TYPE, type ExecutionType, type WorkKind } from '../../core/execution/kinds.ts';
import { coreStatesOf, EXECUTION_STATES, type ExecutionOutcome, type ExecutionState, outcomeOf } from '../../core/execution/states.ts';
import type { JobFilter } from '../../ledger/search/job-filter.ts';
import type { ExecutionView } from './read-execution.ts';

/** Filters are combined with AND. A list matches if one of its values does. */
export type ExecutionFilter = {
  readonly states?: readonly ExecutionState[];
  readonly outcomes?: readonly ExecutionOutcome[];
  readonly types?: readonly ExecutionType[];
  readonly workKinds?: readonly WorkKind[];
  readonly createdAfter?: Date;
  readonly createdBefore?: Date;
  readonly updatedAfter?: Date;
  readonly ids?: readonly string[];
};

/** The filter for the ledger, which finds every match and perhaps more. Null: no job can match. */
export function toJobFilter(filter: ExecutionFilter): JobFilter | null {
  const { types, workKinds, createdAfter, createdBefore, updatedAfter } = filter;
  const states = statesOf(filter);
  if ([states, types, workKinds].some((list) => list?.length === 0)) return null;
  const tags = {
    ...(types?.length === 1 ? { fr_type: types[0] as string } : {}),
    ...(workKinds?.length === 1 ? { work_kind: workKinds[0] as string } : {}),
  };
  return {
    types: [EXECUTION_TYPE],
    ...(states === undefined ? {} : { states: [...new Set(states.flatMap(coreStatesOf))] }),
    ...(Object.keys(tags).length === 0 ? {} : { tags }),
    createdAfter,
    createdBefore,
    updatedAfter,
  };
}

/** Whether a job matches the filter. Ids are not compared. */
export function matches(view: ExecutionView, filter: ExecutionFilter): boolean {
  const { types, workKinds, createdAfter, createdBefore, updatedAfter } = filter;
  const kind = view.definition?.work_kind;
  return (
    (statesOf(filter)?.includes(view.state) ?? true) &&
    (types?.includes(view.type) ?? true) &&
    (workKinds === undefined || (kind !== undefined && workKinds.includes(kind))) &&
    // A view has no microseconds, so a time that is equal here may be later in the ledger.
    (createdAfter === undefined || view.createdAt >= createdAfter) &&
    (createdBefore === undefined || view.createdAt < createdBefore) &&
    (updatedAfter === undefined || view.updatedAt >= updatedAfter)
  );
}

function statesOf({ states, outcomes }: ExecutionFilter): readonly ExecutionState[] | undefined {
  if (outcomes === undefined) return states;
  const isAsked = (state: ExecutionState) => {
    const outcome = outcomeOf(state);
    return outcome !== null && outcomes.includes(outcome);
  };
  return (states ?? EXECUTION_STATES).filter(isAsked);
}
