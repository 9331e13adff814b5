import { Type } from 'typebox';
import { PRIORITIES } from '../../../core/priority.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { word, wordOrNull } from '../../shared/shapes.ts';
import { STATE_WORD_LIST, type StateWord } from '../words.ts';

export { named, shape, textOrNull, timestamp, timestampOrNull, word, wordOrNull } from '../../shared/shapes.ts';

const EXAMPLE_ID = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';

export const JobId = Type.String({ description: 'A job id, assigned by the system.', examples: [EXAMPLE_ID] });

export const JobType = Type.String({ description: 'The job type, which selects the handler.' });

export const JobParams = Type.Object({ id: JobId });

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

export const State = word<StateWord>(STATE_WORD_LIST, 'The state of the job.');
export const stateOrNull = (description: string) => wordOrNull<StateWord>(STATE_WORD_LIST, description);

export const Payload = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
  description: 'A JSON object, or bytes as {"$bytes": "<base64>"}. By default at most 1 MB decoded.',
  examples: [{ to: 'ada@example.com' }, { $bytes: 'AAECAw==' }],
});

export const MAX_PAGE = 1_000;
const DEFAULT_PAGE = 100;

export const Cursor = Type.String({ description: 'The next_cursor of the previous page. Opaque.', maxLength: 500 });
export const Limit = Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE, description: 'Page size.' });
