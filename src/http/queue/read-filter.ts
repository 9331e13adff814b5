import type { Static } from 'typebox';
import { Issues } from '../../core/issues.ts';
import { readTimestamp } from '../../core/submission-fields.ts';
import type { FailureFilter } from '../../services/jobs/search-failures.ts';
import type { JobFilter, SearchPage } from '../../services/jobs/search-jobs.ts';
import type { FailureSearch } from './schemas/failure.ts';
import type { JobSearch, JobSearchQuery } from './schemas/search.ts';
import { categoriesOf, stateOf } from './words.ts';

export type JobQuestion = { filter: JobFilter; page: SearchPage };

type Given = Static<typeof JobSearch>;

/** Translates a search to the states and times of the core. */
export function readSearch(given: Given): JobQuestion {
  const issues = new Issues();
  const time = (field: 'created_after' | 'created_before' | 'updated_after') =>
    given[field] === undefined ? undefined : (readTimestamp(given[field], field, issues) ?? undefined);
  const filter: JobFilter = {
    types: given.types,
    states: given.states?.map(stateOf),
    priorities: given.priorities,
    tags: given.tags,
    createdAfter: time('created_after'),
    createdBefore: time('created_before'),
    updatedAfter: time('updated_after'),
  };
  issues.throwIfAny();
  return { filter, page: { cursor: given.cursor, limit: given.limit, order: given.order } };
}

/** In a query string, tags are a list of `name:value`. */
export function readSearchQuery({ tags, ...rest }: Static<typeof JobSearchQuery>): JobQuestion {
  return readSearch({ ...rest, tags: tags === undefined ? undefined : Object.fromEntries(tags.map(readTag)) });
}

function readTag(text: string): [string, string] {
  const colon = text.indexOf(':');
  return [text.slice(0, colon), text.slice(colon + 1)];
}

export type FailureQuestion = { filter: FailureFilter; page: { cursor?: string; limit?: number } };

export function readFailureSearch(given: Static<typeof FailureSearch>): FailureQuestion {
  const issues = new Issues();
  const time = (field: 'from' | 'to') => {
    const text = given.time_range?.[field];
    return text === undefined ? undefined : (readTimestamp(text, `time_range.${field}`, issues) ?? undefined);
  };
  const filter: FailureFilter = {
    states: given.states?.map((state) => stateOf(state) as 'failed' | 'dead_letter' | 'retrying'),
    categories: given.failure_category === undefined ? undefined : categoriesOf(given.failure_category),
    types: given.types,
    code: given.error_code,
    from: time('from'),
    to: time('to'),
  };
  issues.throwIfAny();
  return { filter, page: { ...given.pagination } };
}
