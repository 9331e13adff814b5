import { dictionary } from '../../core/dictionary.ts';
import { type Priority, priorityNumber } from '../../core/priority.ts';
import type { JobState } from '../../core/states.ts';

export type JobFilter = {
  types?: readonly string[];
  states?: readonly JobState[];
  priorities?: readonly Priority[];
  /** A job must have every tag with exactly this value. */
  tags?: Readonly<Record<string, string>>;
  createdAfter?: Date;
  createdBefore?: Date;
  updatedAfter?: Date;
  ids?: readonly string[];
};

/** With the project that the owner of the search is limited to. */
export type OwnedFilter = JobFilter & { projectId?: string };

type Condition<Value> = {
  /** The type of the parameter in PostgreSQL. */
  type: string;
  /** The condition on job `j`. The parameter has the name of the filter. */
  condition: string;
  /** The parameter, if it is not the value itself. Null matches every job. */
  toParameter?: (value: Value) => unknown;
};

/** One entry per filter. `searchJobs` needs nothing else to apply it. */
const CONDITIONS: { readonly [Name in keyof OwnedFilter]-?: Condition<NonNullable<OwnedFilter[Name]>> } = {
  types: { type: 'text[]', condition: 'j.job_type = ANY ($types)' },
  states: { type: 'millrace.job_state[]', condition: 'j.state = ANY ($states)' },
  priorities: {
    type: 'int2[]',
    condition: 'j.priority = ANY ($priorities)',
    toParameter: (priorities) => priorities.map(priorityNumber),
  },
  // The tags of a job without tags are NULL, which does not contain an empty object.
  tags: {
    type: 'jsonb',
    condition: 'j.tags @> $tags',
    toParameter: (tags) => (Object.keys(tags).length === 0 ? null : JSON.stringify(tags)),
  },
  createdAfter: { type: 'timestamptz', condition: 'j.created_at > $createdAfter' },
  createdBefore: { type: 'timestamptz', condition: 'j.created_at < $createdBefore' },
  updatedAfter: { type: 'timestamptz', condition: 'j.updated_at > $updatedAfter' },
  ids: { type: 'uuid[]', condition: 'j.id = ANY ($ids)' },
  projectId: { type: 'uuid', condition: 'j.project_id = $projectId' },
};

const NAMES = Object.keys(CONDITIONS) as (keyof OwnedFilter)[];

/** The condition on job `j` of the whole filter. A member that is absent matches every job. */
export const MATCHES = NAMES.map((name) => {
  const { type, condition } = CONDITIONS[name];
  return `($${name}::${type} IS NULL OR ${condition})`;
}).join('\n  AND ');

export type FilterParams = Readonly<Record<keyof OwnedFilter, unknown>>;

/** The parameters of `MATCHES`. */
export const filterParams = (filter: OwnedFilter): FilterParams =>
  dictionary(NAMES.map((name) => [name, parameterOf(name, filter)] as const)) as FilterParams;

function parameterOf<Name extends keyof OwnedFilter>(name: Name, filter: OwnedFilter): unknown {
  const { toParameter = (value: unknown) => value } = CONDITIONS[name] as Condition<OwnedFilter[Name]>;
  // In JavaScript a member can also be null.
  return filter[name] == null ? null : toParameter(filter[name]);
}
