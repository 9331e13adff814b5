import type { DurationInput } from '../core/duration.ts';
import { CATEGORY_NAMES, type CategoryName, isCategoryName } from '../core/governance/categories.ts';
import { type Categories, type CategoryChanges, categoriesWith } from '../core/governance/category.ts';
import type { Issues } from '../core/issues.ts';
import { isRecord, membersOf, refuseUnknown } from '../core/known-members.ts';
import { MAX_ATTEMPTS } from '../core/policy.ts';
import { readDuration, readQueue } from '../core/submission-fields.ts';

/** What to change about a category of governed jobs. */
export type CategoryOptions = {
  /** The queue of its jobs, unless the submission names one. */
  queue?: string;
  /** How many attempts a job has, unless its submission or its handler says otherwise. */
  maxAttempts?: number;
  /** The wait before the first retry. It doubles with each retry. */
  baseDelay?: DurationInput;
  /** The longest wait before a retry. */
  maxDelay?: DurationInput;
  /** How long a repeated submission returns the first job. */
  keyWindow?: DurationInput;
  /** A job that fails permanently so many times, each time after a manual retry, is dead-lettered. Default: 2. */
  poisonAfter?: number;
  /** The job types whose handlers may write assignments. For `planning` only. */
  assignmentGrants?: readonly string[];
};

const MEMBERS = membersOf<CategoryOptions>({
  queue: true,
  maxAttempts: true,
  baseDelay: true,
  maxDelay: true,
  keyWindow: true,
  poisonAfter: true,
  assignmentGrants: true,
});

/** The five categories with the changes of the program. */
export function readCategories(given: Readonly<Partial<Record<CategoryName, CategoryOptions>>>, issues: Issues): Categories | undefined {
  if (!isRecord(given)) {
    issues.add('categories', 'INVALID_TYPE', `must be an object with members such as ${CATEGORY_NAMES[0]}`);
    return undefined;
  }
  refuseUnknown(given, CATEGORY_NAMES, issues, 'categories.');
  const changes = Object.entries(given).flatMap(([name, options]): [CategoryName, CategoryChanges][] =>
    isCategoryName(name) && options !== undefined ? [[name, changesOf(name, options, issues)]] : [],
  );
  return categoriesWith(new Map(changes));
}

function changesOf(name: CategoryName, options: CategoryOptions, issues: Issues): CategoryChanges {
  const field = `categories.${name}`;
  if (!isRecord(options)) {
    issues.add(field, 'INVALID_TYPE', 'must be an object');
    return {};
  }
  refuseUnknown(options, MEMBERS, issues, `${field}.`);
  const { queue, maxAttempts, poisonAfter, assignmentGrants } = options;
  const ms = (member: 'baseDelay' | 'maxDelay' | 'keyWindow') =>
    options[member] === undefined ? undefined : (readDuration(options[member], `${field}.${member}`, issues) ?? undefined);
  const requireCount = (member: string, value: number | undefined, least: number): void => {
    if (value === undefined || (Number.isInteger(value) && value >= least && value <= MAX_ATTEMPTS)) return;
    issues.add(`${field}.${member}`, 'OUT_OF_RANGE', `must be an integer from ${least} to ${MAX_ATTEMPTS}`);
  };
  requireCount('maxAttempts', maxAttempts, 1);
  requireCount('poisonAfter', poisonAfter, 2);
  if (assignmentGrants !== undefined && !(Array.isArray(assignmentGrants) && assignmentGrants.every((type) => typeof type === 'string'))) {
    issues.add(`${field}.assignmentGrants`, 'INVALID_TYPE', 'must be a list of job types');
  }
  return {
    queue: queue === undefined ? undefined : readQueue(queue, undefined, issues),
    maxAttempts,
    poisonAfter,
    assignmentGrants,
    baseDelayMs: ms('baseDelay'),
    maxDelayMs: ms('maxDelay'),
    keyWindowMs: ms('keyWindow'),
  };
}
