import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { PRIORITIES } from '../../../core/priority.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { STATE_WORD_LIST, type StateWord } from '../words.ts';

/** One of a few words. */
export const word = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word>({ type: 'string', enum: [...words], ...(description === undefined ? {} : { description }) });

export const wordOrNull = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word | null>({
    type: ['string', 'null'],
    enum: [...words, null],
    ...(description === undefined ? {} : { description }),
  });

export const textOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], description });

/** A shape with a name in the document. Use it with `named`, and add it to the server once. */
export const shape = <const Id extends string, P extends Record<string, TSchema>>(
  $id: Id,
  properties: P,
  options: { description?: string; examples?: readonly unknown[] } = {},
): TObject<P> & { $id: Id } => {
  const { examples, ...rest } = options;
  const listed = examples === undefined ? {} : { examples: [...examples] };
  return Type.Object(properties, { $id, title: $id, additionalProperties: false, ...rest, ...listed }) as TObject<P> & {
    $id: Id;
  };
};

/** A reference to a shape, by its name. */
export const named = <T extends TSchema & { $id: string }>(schema: T, options: { description?: string } = {}) =>
  Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#`, ...options });

const EXAMPLE_ID = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';

export const JobId = Type.String({ description: 'A job id, assigned by the system.', examples: [EXAMPLE_ID] });

export const JobParams = Type.Object({ id: JobId });

/** As answers show it; requests may use any offset and leave out seconds. */
export const timestamp = (description: string) =>
  Type.String({ format: 'date-time', description, examples: ['2024-01-15T10:30:00.000Z'] });

export const timestampOrNull = (description: string) =>
  Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description,
    examples: ['2024-01-15T10:30:00.000Z'],
  });

export const timestampInput = (description: string) =>
  Type.String({ description: `${description} ISO 8601 with any offset.`, examples: ['2024-01-15T10:30:00Z'] });

export const durationInput = (description: string) =>
  Type.Union([Type.String({ examples: ['PT5M'] }), Type.Integer({ minimum: 0, examples: [300] })], {
    description: `${description} An ISO 8601 duration such as PT5M, or an integer of seconds such as 300.`,
  });

export const duration = (description: string) =>
  Type.String({ description: `${description} An ISO 8601 duration.`, examples: ['PT0.25S'] });

export const durationOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], description: `${description} An ISO 8601 duration.` });

export const Tags = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string', maxLength: FIELD_LIMITS.tagValue },
  maxProperties: FIELD_LIMITS.tags,
  description: `Labels: at most ${FIELD_LIMITS.tags}, names up to ${FIELD_LIMITS.tagName} and values up to ${FIELD_LIMITS.tagValue} characters.`,
  examples: [{ customer: 'acme', region: 'eu' }],
});

export const PriorityWord = word(PRIORITIES, 'CRITICAL needs a key with the scope queue:critical.');

export const State = word<StateWord>(STATE_WORD_LIST, 'Where the job is in its life.');
export const StateOrNull = wordOrNull<StateWord>(STATE_WORD_LIST);

/** JSON as it is, or bytes as `{ "$bytes": "<base64>" }`. */
export const Payload = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: 'A JSON object as it is, or bytes as {"$bytes": "<base64>"}. At most 1 MB decoded unless configured.',
  examples: [{ to: 'ada@example.com' }, { $bytes: 'AAECAw==' }],
});

export const MAX_PAGE = 1_000;
const DEFAULT_PAGE = 100;

export const Cursor = Type.String({ description: 'The next_cursor of the page before. Opaque.', maxLength: 500 });
export const Limit = Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE, description: 'Page size.' });
