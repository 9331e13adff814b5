import { Type } from 'typebox';
import {
  DEFAULT_RATE,
  ITEM_RESULTS,
  MAX_CANARY,
  MAX_OPERATION_JOBS,
  MAX_RATE,
  OPERATION_ACTIONS,
  OPERATION_STATES,
} from '../../../core/governance/operation.ts';
import { PAGE } from '../../operators/schemas.ts';
import { DEAD_LETTER_FILTERS, Patch, WhyOption } from './dead-letter.ts';
import { JobId, named, Payload, shape, textOrNull, timestamp, timestampOrNull, word } from './shapes.ts';

const Action = word(OPERATION_ACTIONS, 'What to do with each job. retry and cancel act on jobs, the others on dead letters.');

const Filter = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: `For replay, discard and fix_forward: ${Object.keys(DEAD_LETTER_FILTERS).join(', ')}, as for the list of dead letters. For retry and cancel: types, states, priorities, tags, created_after, created_before, updated_after, as for a search of jobs.`,
  examples: [{ type: 'invoice', code: 'PROVIDER_DOWN' }],
});

export const NewOperation = shape(
  'NewOperation',
  {
    action: Action,
    filter: Type.Optional(Filter),
    job_ids: Type.Optional(
      Type.Array(Type.String({ maxLength: 100 }), {
        minItems: 1,
        maxItems: MAX_OPERATION_JOBS,
        description: 'The jobs, instead of a filter.',
      }),
    ),
    patch: Type.Optional(Patch),
    payload: Type.Optional({
      ...Payload,
      description: 'For fix_forward: the payload of all new jobs, instead of a patch.',
    } as typeof Payload),
    dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Change nothing, and return what would happen.' })),
    canary: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_CANARY,
        default: 0,
        description: 'How many jobs to send first. The others follow when these have ended.',
      }),
    ),
    rate: Type.Optional(Type.Number({ minimum: 0.01, maximum: MAX_RATE, default: DEFAULT_RATE, description: 'Jobs a second.' })),
    halt: Type.Optional(
      Type.Object(
        {
          failure_rate: Type.Optional(
            Type.Number({ minimum: 0, maximum: 1, default: 0.2, description: 'The share of failures that is accepted.' }),
          ),
          after: Type.Optional(
            Type.Integer({ minimum: 1, maximum: 1_000_000, default: 20, description: 'How many jobs must have ended before.' }),
          ),
        },
        { additionalProperties: false, description: 'When to halt. Without it, an operation with a canary halts at 20 % failures.' },
      ),
    ),
    reason: WhyOption,
  },
  {
    description: 'An operation on many jobs. Exactly one of filter and job_ids.',
    examples: [
      {
        action: 'replay',
        filter: { type: 'invoice', code: 'PROVIDER_DOWN' },
        canary: 10,
        rate: 200,
        halt: { failure_rate: 0.2, after: 20 },
        reason: 'provider is back',
      },
    ],
  },
);

export const OperationParams = Type.Object({ operation_id: Type.String({ description: 'The id of the operation.' }) });

export const OperationView = shape(
  'Operation',
  {
    operation_id: Type.String({ description: 'The id of the operation.' }),
    action: Action,
    state: word(OPERATION_STATES, 'canary until the first jobs have ended, then running. halted: too many jobs failed.'),
    matching: Type.Integer({ description: 'The jobs that it acts on. It grows until listing_complete is true.' }),
    listing_complete: Type.Boolean({ description: 'Whether all jobs that match are known.' }),
    sent: Type.Integer({ description: 'The jobs that it has acted on.' }),
    done: Type.Integer({ description: 'The jobs whose result is known: succeeded, failed and skipped.' }),
    succeeded: Type.Integer({ description: 'The jobs that completed, or whose entry was discarded.' }),
    failed: Type.Integer({ description: 'The jobs that failed again.' }),
    skipped: Type.Integer({ description: 'The jobs that it could not act on, or did not because it was stopped.' }),
    undone: Type.Integer({ description: 'The jobs for which it was undone.' }),
    rate: Type.Number({ description: 'Jobs a second.' }),
    canary: Type.Integer({ description: 'How many jobs were sent first.' }),
    halt: Type.Union(
      [
        Type.Object({
          failure_rate: Type.Number({ description: 'The share of failures that is accepted.' }),
          after: Type.Integer({ description: 'How many jobs must have ended before.' }),
        }),
        Type.Null(),
      ],
      {
        description: 'When it halts; null: never.',
      },
    ),
    filter: Type.Union([Filter, Type.Null()], { description: 'Null if the jobs were named.' }),
    reason: textOrNull('Why, in the words of the requester.'),
    created_by: Type.String({ description: 'Who asked for it.' }),
    created_at: timestamp('When it was created.'),
    finished_at: timestampOrNull('When all its jobs had a result.'),
    halted_because: textOrNull('Why it is halted.'),
    undo_until: timestampOrNull('Until when it can be undone; null while it is under way, and if it cannot be undone.'),
  },
  { description: 'An operation on many jobs, with its progress.' },
);

export const OperationList = shape(
  'OperationList',
  {
    items: Type.Array(named(OperationView), { description: 'The operations of this page.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last.'),
  },
  { description: 'A page of operations, newest first.' },
);

export const OperationQuery = Type.Object(
  { state: Type.Optional(word(OPERATION_STATES, 'Only operations in this state.')), ...PAGE },
  { additionalProperties: false },
);

const Shown = Type.Unknown({ description: 'The payload, with secrets masked.' });

export const OperationPreview = shape(
  'OperationPreview',
  {
    matching: Type.Integer({ description: 'How many jobs the operation would act on.' }),
    sample: Type.Array(
      Type.Object({
        job_id: JobId,
        before: Shown,
        after: Shown,
        error: Type.Optional(Type.String({ description: 'Why the patch does not fit.' })),
      }),
      { description: 'Some of them. after is null if the action needs no payload, or the patch does not fit.' },
    ),
  },
  { description: 'What an operation would do.' },
);

export const OperationItem = shape(
  'OperationItem',
  {
    job_id: Type.String({ description: 'The job, as the request named it.' }),
    result: word(ITEM_RESULTS, 'sent: the operation has acted, and the job has not ended.'),
    new_job_id: textOrNull('The job that takes its place, once fixed forward.'),
    error: textOrNull('Why it failed or was skipped.'),
    sent_at: timestampOrNull('When the operation acted on it.'),
    ended_at: timestampOrNull('When its result was known.'),
    undone: Type.Boolean({ description: 'Whether the operation was undone for it.' }),
  },
  { description: 'One job of an operation.' },
);

export const OperationItemList = shape(
  'OperationItemList',
  {
    items: Type.Array(named(OperationItem), { description: 'Each job once.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last.'),
  },
  { description: 'A page of the report of an operation.' },
);

export const ItemQuery = Type.Object(
  { result: Type.Optional(word(ITEM_RESULTS, 'Only jobs with this result.')), ...PAGE },
  { additionalProperties: false },
);
