import { Type } from 'typebox';
import { PRIORITIES } from '../../../core/priority.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { STATE_WORD_LIST } from '../words.ts';
import { JobStatus } from './job.ts';
import { Cursor, Limit, MAX_PAGE, named, shape, Tags, textOrNull, timestampInput, word } from './shapes.ts';

const ORDERS = ['CREATED_ASC', 'CREATED_DESC', 'UPDATED_DESC'] as const;
const MAX_WORDS = 100;

export const Types = Type.Array(Type.String({ maxLength: FIELD_LIMITS.type }), {
  maxItems: MAX_WORDS,
  description: 'Job types to include.',
});

const Order = word(ORDERS, 'Default: CREATED_DESC.');

const FILTERS = {
  types: Type.Optional(Types),
  states: Type.Optional(Type.Array(word(STATE_WORD_LIST), { maxItems: MAX_WORDS, description: 'States to include.' })),
  priorities: Type.Optional(Type.Array(word(PRIORITIES), { maxItems: MAX_WORDS, description: 'Priorities to include.' })),
  created_after: Type.Optional(timestampInput('Created after this time.')),
  created_before: Type.Optional(timestampInput('Created before this time.')),
  updated_after: Type.Optional(timestampInput('State changed after this time.')),
};

const TagFilter = Type.Optional({
  ...Tags,
  description: 'Tags by name. The job must have each of these tags with exactly the given value.',
} as typeof Tags);

export const JobSearch = shape(
  'JobSearch',
  {
    ...FILTERS,
    tags: TagFilter,
    cursor: Type.Optional(Cursor),
    limit: Type.Optional(Limit),
    order: Type.Optional(Order),
  },
  {
    description: 'All filters are optional and combined with AND.',
    examples: [{ types: ['email'], states: ['FAILED', 'DEAD_LETTER'], tags: { customer: 'acme' }, limit: 50 }],
  },
);

/** A search that selects all matching jobs, or one page of them. */
export const JobSelection = shape(
  'JobSelection',
  {
    ...FILTERS,
    tags: TagFilter,
    cursor: Type.Optional(Cursor),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, description: 'Only one page of this size.' })),
    order: Type.Optional(Order),
  },
  { description: 'A JobSearch. Without limit it selects all matching jobs, with limit one page of them.' },
);

/** A search in a query string. */
export const JobSearchQuery = Type.Object(
  {
    ...FILTERS,
    tags: Type.Optional(
      Type.Array(Type.String({ pattern: '^[^:]+:', examples: ['customer:acme'] }), {
        maxItems: FIELD_LIMITS.tags,
        description:
          'Tags to match, each as name:value, split at the first colon. Repeat for several. A name with a colon or a value with a comma needs the POST form.',
      }),
    ),
    cursor: Type.Optional(Cursor),
    limit: Type.Optional(Limit),
    order: Type.Optional(Order),
  },
  { additionalProperties: false },
);

export const JobSearchResult = shape(
  'JobSearchResult',
  {
    jobs: Type.Array(named(JobStatus), { description: 'The jobs of this page.' }),
    total_count: Type.Integer({
      description: 'How many jobs match. The count reads at most 5 000 jobs (1 000 with some filters); beyond that it is an estimate.',
    }),
    total_is_estimate: Type.Boolean({ description: 'Whether total_count is an estimate.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last.'),
    has_more: Type.Boolean({ description: 'Whether another page follows.' }),
  },
  { description: 'A page of jobs.' },
);
