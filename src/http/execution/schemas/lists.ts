import { Type } from 'typebox';
import { EXECUTION_TYPES, WORK_KINDS } from '../../../core/execution/kinds.ts';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../../core/execution/states.ts';
import { EXECUTION_ORDERS } from '../../../services/execution/list-executions.ts';
import { named, shape, textOrNull, word, wordOrNull } from '../../shared/shapes.ts';
import { ExecutionJob, FailureOrNull, JOB_MEMBERS, TIME_MEMBERS } from './job.ts';
import { ExecutionEvent } from './report.ts';

const MAX_IDS = 1_000;
const MAX_PAGE = 1_000;

const words = <const Word extends string>(list: readonly Word[], description: string) =>
  Type.Optional(Type.Array(word(list), { maxItems: 2 * list.length, description }));

const time = (description: string) =>
  Type.Optional(Type.String({ description: `${description} ISO 8601 in UTC.`, examples: ['2024-01-15T10:30:00Z'], maxLength: 64 }));

const FILTERS = {
  states: words(EXECUTION_STATES, 'States to include.'),
  state: words(EXECUTION_STATES, 'An alias of states. If both are given, jobs in any of the named states are included.'),
  outcomes: words(EXECUTION_OUTCOMES, 'Outcomes to include.'),
  types: words(EXECUTION_TYPES, 'Types to include.'),
  work_kinds: words(WORK_KINDS, 'Work kinds to include.'),
  created_after: time('Accepted after this time.'),
  created_before: time('Accepted before this time.'),
  updated_after: time('State changed after this time.'),
};

export const ExecutionListQuery = Type.Object(
  {
    ...FILTERS,
    ids: Type.Optional(
      Type.Array(Type.String({ maxLength: 64 }), {
        maxItems: MAX_IDS,
        description: 'Only these jobs, on one page. Ids of other jobs are ignored.',
      }),
    ),
    order: Type.Optional(word(EXECUTION_ORDERS, 'Newest first, by acceptance (the default) or by last change.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: 100, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the previous page.' })),
  },
  { additionalProperties: false },
);

export const REPORT_FORMATS = ['json', 'ndjson', 'csv'] as const;

export const ExecutionReportsQuery = Type.Object(
  {
    ...FILTERS,
    events: Type.Optional(Type.Boolean({ default: false, description: 'Add the events of each job. Not in CSV.' })),
    format: Type.Optional(word(REPORT_FORMATS, 'Takes precedence over the Accept header.')),
  },
  { additionalProperties: false },
);

export const ExecutionJobList = shape(
  'ExecutionJobList',
  {
    jobs: Type.Array(named(ExecutionJob), { description: 'The jobs of this page.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last page.'),
    has_more: Type.Boolean({ description: 'Whether another page follows. Can be true even if the page is not full.' }),
  },
  { description: 'A page of jobs.' },
);

export const ExecutionReportRow = shape(
  'ExecutionReportRow',
  {
    ...JOB_MEMBERS,
    work_kind: wordOrNull(WORK_KINDS, 'Null only if the definition was lost.'),
    ...TIME_MEMBERS,
    duration_ms: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 0,
      description: 'The duration of the attempt that decided the outcome; null until then.',
    }),
    failure: FailureOrNull,
    events: Type.Optional(Type.Array(named(ExecutionEvent), { description: 'With events=true, oldest first.' })),
  },
  { description: 'One job in the report over all jobs.' },
);

const counts = (description: string) =>
  Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: { type: 'integer' }, description });

export const ExecutionTotals = shape(
  'ExecutionTotals',
  {
    jobs: Type.Integer({ minimum: 0, description: 'The number of jobs in the report.' }),
    by_state: counts('The number of jobs in each state.'),
    by_outcome: counts('The number of jobs with each outcome.'),
    by_work_kind: counts('The number of jobs of each work kind.'),
  },
  { description: 'Numbers of the jobs in the report.' },
);

export const ExecutionReports = shape(
  'ExecutionReports',
  {
    reports: Type.Array(named(ExecutionReportRow), { description: 'All matching jobs, newest first.' }),
    totals: named(ExecutionTotals),
  },
  { description: 'The report over all matching jobs.' },
);
