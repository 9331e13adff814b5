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
    description: 'A public http or https URL that receives the events.',
  }),
  events: Type.Array(Type.String({ maxLength: WEBHOOK_LIMITS.eventName }), {
    maxItems: WEBHOOK_LIMITS.events,
    description: `The events to send, at least one of ${SUBSCRIBABLE.join(', ')}; * means all of them.`,
  }),
  description: Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      maxLength: WEBHOOK_LIMITS.description,
      description: 'For people.',
    }),
  ),
};

export const WebhookRegistration = shape('WebhookRegistration', REQUEST, {
  description: 'A webhook to register.',
  examples: [{ url: EXAMPLE_URL, events: ['job.succeeded', 'job.failed_final'] }],
});

const SECRET = 'The secret that signs messages, as whsec_ and base64.';

export const WebhookRegistered = shape(
  'WebhookRegistered',
  {
    webhook_id: WebhookId,
    created_at: timestamp('When it was registered. Only later events are sent.'),
    secret: textOrNull(`${SECRET} Shown only once; null for a repeat.`),
  },
  {
    description: 'A registered webhook.',
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
      Type.Boolean({ description: 'Whether events are sent. Events of a disabled webhook wait until it is enabled.' }),
    ),
  },
  { description: 'The fields to change. Fields that are absent keep their values.', examples: [{ enabled: true }] },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const WebhookTotals = shape(
  'WebhookTotals',
  {
    delivered: count('Events that were delivered.'),
    attempts: count('Requests that were sent.'),
    failures: count('Requests that failed.'),
  },
  { description: 'Numbers of a webhook since its registration.' },
);

export const Webhook = shape(
  'Webhook',
  {
    webhook_id: WebhookId,
    kind: word(WEBHOOK_KINDS, 'A callback is a URL that jobs of the client name.'),
    url: Type.String({ description: 'The URL that receives the events.' }),
    events: Type.Array(word(SUBSCRIBABLE), { description: 'Empty for a callback.' }),
    description: textOrNull('For people.'),
    enabled: Type.Boolean({ description: 'Whether events are sent.' }),
    disabled_at: timestampOrNull('Null while it is enabled.'),
    disabled_reason: wordOrNull(
      DISABLED_REASONS,
      'Why it is disabled: by a request, because it returned 410, or because it failed for too long.',
    ),
    created_at: timestamp('When it was registered, or when a job first named it.'),
    updated_at: timestamp('When it was last changed.'),
    failing_since: timestampOrNull('The time of the first consecutive failure; null if the last request succeeded.'),
    consecutive_failures: count('Failed requests since the last success.'),
    queued: count('Waiting events.'),
    last_delivery_at: timestampOrNull('When an event was last delivered.'),
    totals: named(WebhookTotals),
  },
  { description: 'A target of events with its statistics, without its secret.' },
);

export const WebhookList = shape(
  'WebhookList',
  {
    webhooks: Type.Array(named(Webhook), { description: 'The webhooks of this page.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last page.'),
  },
  { description: 'A page of webhooks.' },
);

export const WebhookListQuery = Type.Object(
  {
    kind: Type.Optional(word(LISTED_KINDS, 'Default: webhook.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 100, description: 'Page size.' })),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: 'The next_cursor of the previous page.' })),
  },
  { additionalProperties: false },
);

export const WebhookDeletion = shape(
  'WebhookDeletion',
  { deleted: Type.Literal(true, { description: 'The webhook is deleted.' }) },
  { description: 'A deleted webhook.' },
);

export const WebhookRotation = shape(
  'WebhookRotation',
  {
    overlap: Type.Optional(
      Type.Union([Type.String({ maxLength: 64 }), Type.Integer()], {
        description: 'How long the old secret stays valid, such as 24h, PT1H or 0s, at most 30 days. Default: as configured.',
      }),
    ),
  },
  { description: 'How to replace the secret.' },
);

export const WebhookSecret = shape(
  'WebhookSecret',
  {
    secret: Type.String({ description: `${SECRET} Shown only once.` }),
    previous_expires_at: timestampOrNull('Until then messages are also signed with the old secret; null if there was none.'),
  },
  { description: 'A new secret.' },
);
