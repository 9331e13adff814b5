import { Type } from 'typebox';
import { DEAD_LETTER_STATUSES } from '../../../core/governance/dead-letter.ts';
import { MAX_PATCH_STEPS } from '../../../core/governance/payload-patch.ts';
import { PAGE } from '../../operators/schemas.ts';
import { Category } from './job.ts';
import { JobId, JobType, named, Payload, State, shape, textOrNull, timestamp, timestampInput, timestampOrNull, word } from './shapes.ts';

const Status = word(DEAD_LETTER_STATUSES, 'What became of the job.');

export const WhyOption = Type.Optional(Type.String({ maxLength: 1_000, description: 'Why, for the audit trail.' }));

export const DeadLetterParams = Type.Object({ job_id: JobId });

const text = (description: string) => Type.Optional(Type.String({ maxLength: 500, description }));

export const DEAD_LETTER_FILTERS = {
  type: text('Entries of this job type.'),
  queue: text('Entries whose origin queue this is.'),
  category: text('Entries whose job has this category.'),
  code: text('Entries with this error code.'),
  fingerprint: text('Entries of this group.'),
  project_id: text('Entries of this project.'),
  since: Type.Optional(timestampInput('Died at or after this time.')),
  until: Type.Optional(timestampInput('Died before this time.')),
};

const STATUS_FILTER = { status: Type.Optional(word([...DEAD_LETTER_STATUSES, 'all'], 'Default: open.')) };

export const DeadLetterQuery = Type.Object({ ...DEAD_LETTER_FILTERS, ...STATUS_FILTER, ...PAGE }, { additionalProperties: false });
export const GroupQuery = Type.Object({ ...DEAD_LETTER_FILTERS, ...STATUS_FILTER, limit: PAGE.limit }, { additionalProperties: false });

export const DeadLetterError = shape(
  'DeadLetterError',
  {
    code: Type.String({ description: 'What went wrong, for programs.' }),
    message: Type.String({ description: 'What went wrong, for people. Secrets are masked.' }),
    category: Category,
    stack: Type.Optional(Type.String({ description: 'The stack of the error, without folders.' })),
    context: Type.Optional(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'More facts, by name.',
      }),
    ),
  },
  { description: 'The error of the last attempt.' },
);

export const ActionPlan = shape(
  'ActionPlan',
  {
    recommended: word(['replay', 'fix_forward', 'discard'], 'The action that fits the error.'),
    steps: Type.Array(Type.String(), { description: 'What to do, in order.' }),
  },
  { description: 'What an operator can do about the entry.' },
);

export const DeadLetterEntry = shape(
  'DeadLetter',
  {
    job_id: JobId,
    type: JobType,
    origin_queue: Type.String({ description: 'The queue of the job before it died.' }),
    category: textOrNull('The category of the job.'),
    project_id: textOrNull('The project of the job.'),
    status: Status,
    failed_at: timestamp('When the job died.'),
    attempts: Type.Integer({ description: 'The attempts that it had.' }),
    reason: Type.String({ description: 'Why it died, as its history says.', examples: ['attempts_exhausted', 'poison'] }),
    error: named(DeadLetterError),
    fingerprint: Type.String({ description: 'The group of entries with the same cause.' }),
    action_plan: named(ActionPlan),
    resolved_at: timestampOrNull('When the entry was closed; null while it is open.'),
    resolved_by: textOrNull('Who closed it; null while it is open.'),
    undo_until: timestampOrNull('Until when a discard can be undone.'),
    replaced_by_job_id: textOrNull('The job that does its work, once fixed forward.'),
  },
  { description: 'A dead-lettered job. The entry is kept when the job itself is removed.' },
);

export const DeadLetterPage = shape(
  'DeadLetterPage',
  {
    items: Type.Array(named(DeadLetterEntry), { description: 'The entries of this page.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last.'),
  },
  { description: 'A page of entries, newest first. A page may be short or empty and still have a cursor.' },
);

export const DeadLetterGroup = shape(
  'DeadLetterGroup',
  {
    fingerprint: Type.String({ description: 'The id of the group. It ignores ids, numbers and quoted text in messages.' }),
    type: JobType,
    code: Type.String({ description: 'The error code.' }),
    message: Type.String({ description: 'The message of the sample.' }),
    count: Type.Integer({ description: 'How many entries it has.' }),
    first_at: timestamp('When the first of them died.'),
    last_at: timestamp('When the last of them died.'),
    sample_job_id: JobId,
  },
  { description: 'Entries with the same cause.' },
);

export const DeadLetterGroupList = shape(
  'DeadLetterGroupList',
  {
    items: Type.Array(named(DeadLetterGroup), { description: 'The largest group first.' }),
    counts_are_partial: Type.Boolean({ description: 'There are too many entries to count all of them.' }),
  },
  { description: 'Groups of entries.' },
);

export const DeadLetterReason = shape('DeadLetterReason', { reason: WhyOption }, { description: 'All members are optional.' });

export const Replayed = shape('ReplayedDeadLetter', { job_id: JobId, state: State }, { description: 'The job runs again.' });
export const Discarded = shape(
  'DiscardedDeadLetter',
  {
    job_id: JobId,
    status: Type.Literal('discarded', { description: 'The entry is closed.' }),
    undo_until: timestamp('Until when the discard can be undone.'),
  },
  { description: 'A discarded entry.' },
);
export const Restored = shape(
  'RestoredDeadLetter',
  { job_id: JobId, status: Type.Literal('open', { description: 'The entry is open again.' }) },
  { description: 'A restored entry.' },
);

export const Patch = Type.Unsafe<{ op: string; path: string; from?: string; value?: unknown }[]>({
  type: 'array',
  minItems: 1,
  maxItems: MAX_PATCH_STEPS,
  items: { type: 'object', additionalProperties: true },
  description: 'RFC 6902 operations, applied to the payload.',
  examples: [[{ op: 'replace', path: '/currency', value: 'EUR' }]],
});

export const FixForward = shape(
  'FixForward',
  { payload: Type.Optional(Payload), patch: Type.Optional(Patch), reason: WhyOption },
  {
    description: 'The payload of the new job, or a patch of the old one. Exactly one of the two.',
    examples: [{ patch: [{ op: 'replace', path: '/currency', value: 'EUR' }] }],
  },
);

export const FixedForward = shape(
  'FixedForward',
  { job_id: JobId, replaces_job_id: Type.String({ description: 'The dead-lettered job.' }) },
  { description: 'The new job, and the one whose work it does.' },
);
