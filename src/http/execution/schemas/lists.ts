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
  Type.Optional(
    Type.String({ description: `${description} ISO 8601 in UTC.`, examples: ['2024-01-15T10:30:00Z'], maxLength: 64 }),
  );

const FILTERS = {
  states: words(EXECUTION_STATES, 'States to include.'),
  state: words(EXECUTION_STATES, 'Another name of states. Given both, jobs in any of the states named are included.'),
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
        description: 'Only these jobs, all on one page; ids that are no job of the client are left out.',
      }),
    ),
    order: Type.Optional(word(EXECUTION_ORDERS, 'Newest first, by acceptance (unless given) or last change.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: 100, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the page before.' })),
  },
  { additionalProperties: false },
);

export const REPORT_FORMATS = ['json', 'ndjson', 'csv'] as const;

export const ExecutionReportsQuery = Type.Object(
  {
    ...FILTERS,
    events: Type.Optional(Type.Boolean({ default: false, description: 'Add the events of each job. Not in CSV.' })),
    format: Type.Optional(word(REPORT_FORMATS, 'Decides before the Accept header does.')),
  },
  { additionalProperties: false },
);

export const ExecutionJobList = shape('ExecutionJobList', {
  jobs: Type.Array(named(ExecutionJob)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
  has_more: Type.Boolean({ description: 'Also true of a page that is short because few of the jobs looked at match.' }),
});

export const ExecutionReportRow = shape(
  'ExecutionReportRow',
  {
    ...JOB_MEMBERS,
    work_kind: wordOrNull(WORK_KINDS, 'Null only where the definition was lost.'),
    ...TIME_MEMBERS,
    duration_ms: Type.Unsafe<number | null>({
      ...{ type: ['integer', 'null'], minimum: 0 },
      description: 'Of the attempt that gave the outcome; null until there is one.',
    }),
    failure: FailureOrNull,
    events: Type.Optional(Type.Array(named(ExecutionEvent), { description: 'With events=true, oldest first.' })),
  },
  { description: 'One job in the report over all jobs.' },
);

const counts = (description: string) =>
  Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: { type: 'integer' }, description });

export const ExecutionTotals = shape('ExecutionTotals', {
  jobs: Type.Integer({ minimum: 0, description: 'How many jobs are in the report.' }),
  by_state: counts('Jobs in each state that occurs.'),
  by_outcome: counts('Jobs with each outcome that occurs.'),
  by_work_kind: counts('Jobs of each work kind that occurs.'),
});

export const ExecutionReports = shape('ExecutionReports', {
  reports: Type.Array(named(ExecutionReportRow), { description: 'Every job that matches, newest first.' }),
  totals: named(ExecutionTotals),
});

export const LIST_SHAPES = [ExecutionJobList, ExecutionReportRow, ExecutionTotals, ExecutionReports];
