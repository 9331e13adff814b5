import { Type } from 'typebox';
import { DISABLED_EVENT, JOB_EVENT_NAMES, TEST_EVENT } from '../../../core/public-events.ts';
import { ATTEMPT_VERDICTS, DELIVERY_STATES } from '../../../core/webhook-words.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../../shared/shapes.ts';

const EVENTS = [...JOB_EVENT_NAMES, DISABLED_EVENT, TEST_EVENT];

const DeliveryId = Type.String({ format: 'uuid', description: 'The id of the delivery.' });

export const DeliveryParams = Type.Object({
  webhook_id: Type.String({ description: 'The id of the webhook.' }),
  delivery_id: Type.String({ description: 'The id of the delivery.' }),
});

const time = (description: string) =>
  Type.String({ description: `${description} ISO 8601.`, examples: ['2024-01-15T10:30:00Z'], maxLength: 64 });

export const DeliveryListQuery = Type.Object(
  {
    state: Type.Optional(word(DELIVERY_STATES, 'Only those in this state.')),
    event: Type.Optional(word(EVENTS, 'Only those of this event.')),
    since: Type.Optional(time('Only those of events since then.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the page before.' })),
  },
  { additionalProperties: false },
);

const DeliveryAttempt = shape('DeliveryAttempt', {
  n: Type.Integer({ minimum: 1, description: 'Which attempt it was, from 1.' }),
  ended_at: timestamp('When it ended.'),
  duration_ms: Type.Integer({ minimum: 0, description: 'From the look-up of the name to the end of the answer.' }),
  verdict: word(
    ATTEMPT_VERDICTS,
    'retry: failed, to be tried again. failed: for good. gone: answered 410. interrupted: cut short here; it may have arrived.',
  ),
  status: Type.Unsafe<number | null>({
    ...{ type: ['integer', 'null'] },
    description: 'What was answered; null when nothing was.',
  }),
  error_code: textOrNull('Why there was no good answer, for programs; null when there was.'),
  answer: textOrNull('The beginning of what was answered, with what looks like a secret masked.'),
});

const DELIVERY = {
  delivery_id: DeliveryId,
  message_id: Type.String({ description: 'The header webhook-id: the same for every attempt, and every replay.' }),
  event: word(EVENTS),
  job_id: textOrNull('The job that the event is of; null for one that is of none.'),
  state: word(DELIVERY_STATES, 'retrying: an attempt failed, and there will be another.'),
  attempts: Type.Array(named(DeliveryAttempt), { description: 'Oldest first.' }),
  created_at: timestamp('When it was queued first.'),
  ended_at: timestampOrNull('When it was delivered or given up; null until then.'),
};

export const WebhookDelivery = shape('WebhookDelivery', DELIVERY, { description: 'One event for one webhook.' });

export const WebhookDeliveryDetails = shape(
  'WebhookDeliveryDetails',
  { ...DELIVERY, body: Type.String({ description: 'The text that is signed and sent.' }) },
  { description: 'One event for one webhook, with its text.' },
);

export const WebhookDeliveryList = shape('WebhookDeliveryList', {
  deliveries: Type.Array(named(WebhookDelivery)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const WebhookDeliveryQueued = shape('WebhookDeliveryQueued', { delivery_id: DeliveryId });

export const WebhookReplay = shape(
  'WebhookReplay',
  {
    since: time('Everything that failed since then.'),
    state: Type.Optional(word(['failed'], 'Only what failed can be replayed as a whole.')),
  },
  { description: 'What to send again.', examples: [{ since: '2024-01-15T10:30:00Z' }] },
);

export const WebhookReplayed = shape('WebhookReplayed', {
  queued: Type.Integer({ minimum: 0, description: 'How many are sent again; ask again when it is 10000.' }),
});

export const DELIVERY_SHAPES = [
  ...[DeliveryAttempt, WebhookDelivery, WebhookDeliveryDetails, WebhookDeliveryList],
  ...[WebhookDeliveryQueued, WebhookReplay, WebhookReplayed],
];
