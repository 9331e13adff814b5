import { type Issue, MAX_ISSUES } from './errors.ts';
import type { Failure } from './failure.ts';
import { isTerminal, type JobState } from './states.ts';
import { type Transition, transitions } from './transitions.ts';

export const DEPENDENCY_TYPES = ['AFTER', 'AFTER_ANY', 'CHAIN'] as const;

export type DependencyType = (typeof DEPENDENCY_TYPES)[number];

export const DEFAULT_DEPENDENCY_TYPE: DependencyType = 'AFTER';
/** A job without dependencies has depth 0; the deepest dependent allowed has depth 100. */
export const MAX_DEPTH = 100;
export const MAX_BREADTH = 1_000;
/** Jobs that may depend on one job, including those that have ended. */
export const MAX_DEPENDENTS = 100_000;
/** Children that one attempt may spawn. */
export const MAX_CHILDREN = 1_000;

interface FoundDependency {
  readonly id: string;
  readonly depth: number;
  readonly state: JobState;
  /** An ancestor of the new job that waits for its children, so the new job must not wait for it. */
  readonly isAncestorHolding: boolean;
  /** How many jobs already depend on it. */
  readonly dependents?: number;
}

export interface CheckDependenciesParams {
  readonly requested: { readonly ids: readonly string[] };
  readonly found: readonly FoundDependency[];
}

export type CheckedDependencies = { readonly ok: true; readonly depth: number } | { readonly ok: false; readonly issues: readonly Issue[] };

/** Checks that a new job may depend on these jobs, and returns its depth in the dependency graph. */
export function checkDependencies({ requested, found }: CheckDependenciesParams): CheckedDependencies {
  const ids = new Set(requested.ids);
  const issues: Issue[] = [];
  if (ids.size > MAX_BREADTH) issues.push(breadthIssue());
  const byId = new Map(found.map((dependency) => [dependency.id, dependency]));
  let depth = 0;
  for (const id of ids) {
    if (issues.length >= MAX_ISSUES) break;
    const dependency = byId.get(id);
    if (dependency === undefined) {
      issues.push(missingDependency(id));
      continue;
    }
    if (dependency.isAncestorHolding) {
      issues.push(issue('DEPENDENCY_CYCLE', `the job ${id} waits for this one, so this job cannot depend on it: remove the dependency`));
    }
    if ((dependency.dependents ?? 0) >= MAX_DEPENDENTS) issues.push(dependentsIssue(id));
    depth = Math.max(depth, dependency.depth + 1);
  }
  if (depth > MAX_DEPTH) {
    issues.push(issue('DEPENDENCY_DEPTH', `a chain of dependencies must have at most ${MAX_DEPTH} levels`));
  }
  return issues.length === 0 ? { ok: true, depth } : { ok: false, issues };
}

export function missingDependency(id: string): Issue {
  return issue('DEPENDENCY_NOT_FOUND', `the job ${id} does not exist: check the id`);
}

/** For a cycle through other jobs. */
export function cycleIssue(): Issue {
  return issue('DEPENDENCY_CYCLE', 'the dependencies form a cycle, so none of these jobs could ever run: remove one of them');
}

export function breadthIssue(): Issue {
  return issue('DEPENDENCY_BREADTH', `a job must have at most ${MAX_BREADTH} dependencies`);
}

function dependentsIssue(id: string): Issue {
  return issue(
    'TOO_MANY_DEPENDENTS',
    `at most ${MAX_DEPENDENTS} jobs can depend on the job ${id}: submit one job that depends on it, and let the others depend on that one`,
  );
}

function issue(code: string, message: string): Issue {
  return { field: 'dependsOn', code, message };
}

/** Whether a parent fails if a child that it joins does not complete (`all`), or only waits for the end of the child (`settled`). */
const JOIN_MODES = ['all', 'settled'] as const;
export type JoinMode = (typeof JOIN_MODES)[number];

export const isJoin = (value: unknown): value is JoinMode | boolean => typeof value === 'boolean' || JOIN_MODES.includes(value as JoinMode);

/** `true` stands for `all`. */
export const joinModeOf = (join: JoinMode | boolean): JoinMode | null => (join === true ? 'all' : join === false ? null : join);

/** The failure of a parent whose child did not complete. */
export function childFailure({ id, state }: { readonly id: string; readonly state: string }): Failure {
  return { category: 'PERMANENT', code: 'CHILD_FAILED', message: `the child job ${id} ended as ${state}` };
}

export type DependentResolution =
  | { readonly kind: 'wait' }
  | { readonly kind: 'proceed' }
  | { readonly kind: 'end'; readonly transition: Transition<'pending'>; readonly failure: Failure };

// When several dependencies ended badly, the first of these decides.
const BAD_ENDS = ['failed', 'dead_letter', 'cancelled'] as const;
type BadEnd = (typeof BAD_ENDS)[number];

const ENDS = {
  AFTER: {
    failed: transitions.pendingToFailedDependencyFailed,
    dead_letter: transitions.pendingToDeadLetterDependencyDeadLetter,
    cancelled: transitions.pendingToCancelledDependencyCancelled,
  },
  CHAIN: {
    failed: transitions.pendingToFailedChainStopped,
    dead_letter: transitions.pendingToDeadLetterChainStopped,
    cancelled: transitions.pendingToCancelledChainStopped,
  },
} as const satisfies Record<'AFTER' | 'CHAIN', Record<BadEnd, () => Transition<'pending'>>>;

/** What happens to a pending job, given the states of its dependencies. */
export function resolveDependent(type: DependencyType, dependencyStates: readonly JobState[]): DependentResolution {
  if (dependencyStates.length === 0) return { kind: 'proceed' };
  if (type === 'AFTER_ANY') return { kind: dependencyStates.some(isTerminal) ? 'proceed' : 'wait' };
  const bad = BAD_ENDS.find((state) => dependencyStates.includes(state));
  if (bad !== undefined) return { kind: 'end', transition: ENDS[type][bad](), failure: dependencyFailure(bad) };
  return { kind: dependencyStates.every((state) => state === 'completed') ? 'proceed' : 'wait' };
}

function dependencyFailure(state: BadEnd): Failure {
  return {
    category: 'PERMANENT',
    code: 'DEPENDENCY_FAILED',
    message: `a job that this one depends on ended as ${state}`,
  };
}
