import { Type } from 'typebox';
import { SUBSCRIBABLE } from '../../../core/public-events.ts';
import { FIELD_LIMITS } from '../../../core/submission-fields.ts';
import { WEBHOOK_LIMITS } from '../../../core/webhook-request.ts';
import { DISABLED_REASONS, WEBHOOK_KINDS } from '../../../core/webhook-words.ts';
import { LISTED_KINDS } from '../../../services/webhooks/read-webhook.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word, wordOrNull } from '../../shared/shapes.ts';

const EXAMPLE_ID = 'c0a8012e-6f5b-4d0e-9d39-1f2a3b4c5d6e';
const EXAMPLE_URL = 'https://example.com/hook';

const WebhookId = Type.String({ format: 'uuid', description: 'The id of the webhook.', examples: [EXAMPLE_ID] });

export const WebhookParams = Type.Object({ webhook_id: Type.String({ description: 'The id of the webhook.' }) });

const REQUEST = {
  url: Type.String({
    maxLength: FIELD_LIMITS.callbackUrl,
    description: 'Where to send events: an http or https address that is public.',
  }),
  events: Type.Array(Type.String({ maxLength: WEBHOOK_LIMITS.eventName }), {
    maxItems: WEBHOOK_LIMITS.events,
    description: `What to send, at least one of ${SUBSCRIBABLE.join(', ')}; * is all of them.`,
  }),
  description: Type.Optional(
    Type.Unsafe<string | null>({
      ...{ type: ['string', 'null'], maxLength: WEBHOOK_LIMITS.description },
      description: 'For people.',
    }),
  ),
};

export const WebhookRegistration = shape('WebhookRegistration', REQUEST, {
  description: 'A webhook to register.',
  examples: [{ url: EXAMPLE_URL, events: ['job.succeeded', 'job.failed_final'] }],
});

const SECRET = 'What its messages are signed with, as whsec_ and base64.';

export const WebhookRegistered = shape(
  'WebhookRegistered',
  {
    webhook_id: WebhookId,
    created_at: timestamp('When it was registered: what happens from then on is sent.'),
    secret: textOrNull(`${SECRET} Shown this once; null in the answer to a repeat.`),
  },
  {
    description: 'A webhook that was registered.',
    examples: [{ webhook_id: EXAMPLE_ID, created_at: '2024-01-15T10:30:00.000Z', secret: null }],
  },
);

export const WebhookChange = shape(
  'WebhookChange',
  {
    url: Type.Optional(REQUEST.url),
    events: Type.Optional(REQUEST.events),
    description: REQUEST.description,
    enabled: Type.Optional(
      Type.Boolean({ description: 'Whether events are sent. While they are not, they wait; enabling starts them.' }),
    ),
  },
  { description: 'What to change; absent members stay.', examples: [{ enabled: true }] },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

const WebhookTotals = shape('WebhookTotals', {
  delivered: count('Events that were delivered.'),
  attempts: count('Requests that were sent.'),
  failures: count('Requests that failed.'),
});

export const Webhook = shape(
  'Webhook',
  {
    webhook_id: WebhookId,
    kind: word(WEBHOOK_KINDS, 'A callback is the address that jobs of the client name themselves.'),
    url: Type.String(),
    events: Type.Array(word(SUBSCRIBABLE), { description: 'Of a callback empty: its jobs decide.' }),
    description: textOrNull('For people.'),
    enabled: Type.Boolean({ description: 'Whether events are sent.' }),
    disabled_at: timestampOrNull('Null while it is enabled.'),
    disabled_reason: wordOrNull(
      DISABLED_REASONS,
      'Why it is disabled: by hand, because it answered 410, or because it failed for too long.',
    ),
    created_at: timestamp('When it was registered, or first named by a job.'),
    updated_at: timestamp('When it was last changed.'),
    failing_since: timestampOrNull(
      'When the first of the failures in a row was; null when the last request succeeded.',
    ),
    consecutive_failures: count('Requests that failed since the last that succeeded.'),
    queued: count('Events that wait to be sent.'),
    last_delivery_at: timestampOrNull('When the newest of the delivered events was delivered.'),
    totals: named(WebhookTotals),
  },
  { description: 'Where events are sent, and how that fares. Never its secret.' },
);

export const WebhookList = shape('WebhookList', {
  webhooks: Type.Array(named(Webhook)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const WebhookListQuery = Type.Object(
  {
    kind: Type.Optional(word(LISTED_KINDS, 'Webhooks unless given.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 100, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the page before.' })),
  },
  { additionalProperties: false },
);

export const WebhookDeletion = shape('WebhookDeletion', { deleted: Type.Literal(true) });

export const WebhookRotation = shape('WebhookRotation', {
  overlap: Type.Optional(
    Type.Union([Type.String({ maxLength: 64 }), Type.Integer()], {
      description:
        'How long the secret before still counts, such as 24h, PT1H or 0s, at most 30 days; as configured unless given.',
    }),
  ),
});

export const WebhookSecret = shape('WebhookSecret', {
  secret: Type.String({ description: `${SECRET} Shown this once.` }),
  previous_expires_at: timestampOrNull(
    'Until then messages are signed with the secret before as well; null: there was none.',
  ),
});

export const WEBHOOK_SHAPES = [
  ...[WebhookRegistration, WebhookRegistered, WebhookChange, WebhookTotals, Webhook, WebhookList],
  ...[WebhookDeletion, WebhookRotation, WebhookSecret],
];
