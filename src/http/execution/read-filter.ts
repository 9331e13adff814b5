import type { Static } from 'typebox';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { readTimestamp } from '../../core/submission-fields.ts';
import type { ExecutionFilter } from '../../services/execution/execution-filter.ts';
import type { ReportFilter } from '../../services/execution/execution-reports.ts';
import type { ExecutionPage } from '../../services/execution/list-executions.ts';
import type { ExecutionListQuery, ExecutionReportsQuery } from './schemas/lists.ts';

const UTC = /(?:[Zz]|[+-]00:?00)$/;

export function readListQuery(query: Static<typeof ExecutionListQuery>): {
  filter: ExecutionFilter;
  page: ExecutionPage;
} {
  const { ids, cursor, limit, order } = query;
  const filter = { ...readFilters(query), ...(ids === undefined ? {} : { ids: ids.filter(isUuid) }) };
  return { filter, page: { cursor, limit, order } };
}

export function readReportsQuery(query: Static<typeof ExecutionReportsQuery>): ReportFilter {
  return { ...readFilters(query), withEvents: query.events ?? false };
}

type Given = Omit<Static<typeof ExecutionReportsQuery>, 'events' | 'format'>;

function readFilters(given: Given): ExecutionFilter {
  const issues = new Issues();
  const time = (field: 'created_after' | 'created_before' | 'updated_after') =>
    given[field] === undefined ? undefined : readUtc(given[field], field, issues);
  const filter: ExecutionFilter = {
    states: given.state === undefined ? given.states : [...(given.states ?? []), ...given.state],
    outcomes: given.outcomes,
    types: given.types,
    workKinds: given.work_kinds,
    createdAfter: time('created_after'),
    createdBefore: time('created_before'),
    updatedAfter: time('updated_after'),
  };
  const [first] = issues.list;
  if (first === undefined) return filter;
  throw new AppError('INVALID_REQUEST', { message: `${first.message}.`, details: issues.list });
}

function readUtc(text: string, field: string, issues: Issues): Date | undefined {
  const date = readTimestamp(text, field, issues);
  if (date !== null && !UTC.test(text)) issues.add(field, 'NOT_UTC', 'must be in UTC: end it with Z');
  return date ?? undefined;
}
