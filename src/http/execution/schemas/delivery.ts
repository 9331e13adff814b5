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
    state: Type.Optional(word(DELIVERY_STATES, 'Only deliveries in this state.')),
    event: Type.Optional(word(EVENTS, 'Only deliveries of this event.')),
    since: Type.Optional(time('Only deliveries of events since this time.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the previous page.' })),
  },
  { additionalProperties: false },
);

export const DeliveryAttempt = shape(
  'DeliveryAttempt',
  {
    n: Type.Integer({ minimum: 1, description: 'The number of the attempt, from 1.' }),
    ended_at: timestamp('When it ended.'),
    duration_ms: Type.Integer({ minimum: 0, description: 'From the DNS lookup to the end of the response.' }),
    verdict: word(
      ATTEMPT_VERDICTS,
      'retry: failed, will be retried. failed: failed for good. gone: the endpoint returned 410. interrupted: the server stopped during the attempt; the event may have arrived.',
    ),
    status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'The status of the response; null if there was none.',
    }),
    error_code: textOrNull('Why the attempt failed, for programs; null if it did not.'),
    answer: textOrNull('The beginning of the response, with possible secrets masked.'),
  },
  { description: 'One request to the endpoint.' },
);

const DELIVERY = {
  delivery_id: DeliveryId,
  message_id: Type.String({ description: 'The header webhook-id: the same for every attempt and redelivery.' }),
  event: word(EVENTS, 'The event that is delivered.'),
  job_id: textOrNull('The job of the event; null for an event without a job.'),
  state: word(DELIVERY_STATES, 'retrying: an attempt failed and will be repeated.'),
  attempts: Type.Array(named(DeliveryAttempt), { description: 'Oldest first.' }),
  created_at: timestamp('When it was first queued.'),
  ended_at: timestampOrNull('When it was delivered or failed; null until then.'),
};

export const WebhookDelivery = shape('WebhookDelivery', DELIVERY, { description: 'One event for one webhook.' });

export const WebhookDeliveryDetails = shape(
  'WebhookDeliveryDetails',
  { ...DELIVERY, body: Type.String({ description: 'The text that is signed and sent.' }) },
  { description: 'One event for one webhook, with its text.' },
);

export const WebhookDeliveryList = shape(
  'WebhookDeliveryList',
  {
    deliveries: Type.Array(named(WebhookDelivery), { description: 'The deliveries of this page, newest first.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last page.'),
  },
  { description: 'A page of deliveries.' },
);

export const WebhookDeliveryQueued = shape(
  'WebhookDeliveryQueued',
  { delivery_id: DeliveryId },
  { description: 'A delivery that waits to be sent.' },
);

export const WebhookReplay = shape(
  'WebhookReplay',
  {
    since: time('Selects events whose delivery failed since this time.'),
    state: Type.Optional(word(['failed'], 'Only failed deliveries can be selected.')),
  },
  { description: 'The events to send again.', examples: [{ since: '2024-01-15T10:30:00Z' }] },
);

export const WebhookReplayed = shape(
  'WebhookReplayed',
  {
    queued: Type.Integer({
      minimum: 0,
      description:
        'How many events are queued to be sent again, at most 10000. If it is 10000, repeat the request, because more may remain.',
    }),
  },
  { description: 'How many events are sent again.' },
);
