import type { Policy } from '../policy.ts';
import { DEFAULT_QUEUE } from '../submission-fields.ts';
import { CATEGORY_NAMES, type CategoryName } from './categories.ts';

/** The rules of a category. Operators can change them, except which members and which start times it accepts. */
export interface Category {
  readonly name: CategoryName;
  /** Where its jobs wait unless the submission names a queue. */
  readonly queue: string;
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** How long a repeated submission returns the first job. */
  readonly keyWindowMs: number;
  /** A job that fails permanently for this many times, with manual retries in between, is dead-lettered. */
  readonly poisonAfter: number;
  /** The job types whose handlers may write assignments, if the payload contains the command. */
  readonly assignmentGrants: readonly string[];
  /** Whether a submission may ask for a later start. */
  readonly allowsScheduling: boolean;
  /** Members that a payload must have. */
  readonly requiredMembers: readonly string[];
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 86_400 * SECOND;

const DEFAULTS = {
  queue: DEFAULT_QUEUE,
  maxAttempts: 5,
  baseDelayMs: 5 * SECOND,
  maxDelayMs: 5 * MINUTE,
  keyWindowMs: 7 * DAY,
  poisonAfter: 2,
  assignmentGrants: [],
  allowsScheduling: false,
  requiredMembers: [],
} as const satisfies Omit<Category, 'name'>;

const DIFFERENCES = {
  notification: {
    queue: 'q:notifications',
    maxAttempts: 10,
    maxDelayMs: 30 * MINUTE,
    allowsScheduling: true,
    requiredMembers: ['recipient', 'template'],
  },
  audit_enrichment: {},
  planning: { queue: 'q:planning', maxAttempts: 3, maxDelayMs: 2 * MINUTE, keyWindowMs: 30 * DAY },
  import_export: { queue: 'q:exports', maxDelayMs: 10 * MINUTE, keyWindowMs: 30 * DAY },
  maintenance: { queue: 'q:maintenance', allowsScheduling: true },
} as const satisfies Record<CategoryName, Partial<Category>>;

/** What an operator may change about a category. */
export type CategoryChanges = Partial<Omit<Category, 'name' | 'allowsScheduling' | 'requiredMembers'>>;

/** The category by its name, with the changes of the operator. */
export function categoryOf(name: CategoryName, changes: CategoryChanges = {}): Category {
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  return Object.freeze({ ...DEFAULTS, ...DIFFERENCES[name], ...given, name });
}

/** The five categories, by name. */
export type Categories = ReadonlyMap<CategoryName, Category>;

export const categoriesWith = (changes: ReadonlyMap<CategoryName, CategoryChanges> = new Map()): Categories =>
  new Map(CATEGORY_NAMES.map((name) => [name, categoryOf(name, changes.get(name))]));

/**
 * The policy of the category's jobs before their handler and submission have their say. Its name is that of the category. Delays are
 * exponential, and jitter is always on.
 */
function categoryProfile(category: Category, base: Policy): Policy {
  const { name, maxAttempts, baseDelayMs, maxDelayMs, keyWindowMs, poisonAfter } = category;
  return Object.freeze({
    ...base,
    profile: name,
    maxAttempts,
    keyWindowMs,
    backoff: Object.freeze({
      strategy: 'EXPONENTIAL',
      initialDelayMs: baseDelayMs,
      maxDelayMs: Math.max(baseDelayMs, maxDelayMs),
      multiplier: 2,
      jitter: true,
    } as const),
    autoRetry: true,
    retryOnTimeout: true,
    retryOnSystem: true,
    onOrphan: 'retry',
    poisonAfter,
  } as const);
}

/** The categories, each with the policy of its jobs. */
export interface Governance {
  readonly categories: Categories;
  /** Returns the same object for every call, because the ledger recognises policies by identity. */
  profileOf(category: Category): Policy;
}

export function governanceOf(categories: Categories, base: Policy): Governance {
  const profiles = new Map([...categories.values()].map((category) => [category.name, categoryProfile(category, base)]));
  return { categories, profileOf: ({ name }) => profiles.get(name) as Policy };
}
