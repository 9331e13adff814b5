import { Type } from 'typebox';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../../core/execution/states.ts';
import { FAILURE_CATEGORIES } from '../../../core/failure.ts';
import { DISABLED_EVENT, JOB_EVENT_NAMES, TEST_EVENT } from '../../../core/public-events.ts';
import { named, shape, textOrNull, timestamp, word, wordOrNull } from '../../shared/shapes.ts';

export const JobEventData = shape(
  'WebhookJobData',
  {
    event_id: Type.String({ description: 'The id of the event, as in the report of its job.' }),
    job_id: Type.String({ format: 'uuid', description: 'The id of the job.' }),
    event_name: word(JOB_EVENT_NAMES, 'What happened.'),
    prev_state: wordOrNull(EXECUTION_STATES, 'Null for the first event.'),
    next_state: word(EXECUTION_STATES, 'The state after the event.'),
    timestamp: timestamp('When it happened.'),
    scenario: textOrNull('The work kind; null for jobs of other APIs.'),
    job_type: Type.String({ description: 'The type of the job.' }),
    attempt: Type.Integer({ minimum: 0, description: 'The number of attempts so far.' }),
    reason: Type.Optional(Type.String({ description: 'The reason, if known.' })),
    retries_exhausted: Type.Optional(Type.Literal(true, { description: 'Present if no retry is left.' })),
    state: Type.Optional(Type.String({ description: 'For jobs of other APIs: the state as named there.' })),
    outcome: Type.Optional(word(EXECUTION_OUTCOMES, 'Present once the job has an outcome.')),
    error: Type.Optional(
      Type.Object(
        {
          category: word(FAILURE_CATEGORIES, 'The kind of the failure.'),
          code: Type.Optional(Type.String({ description: 'What went wrong, for programs.' })),
        },
        { additionalProperties: false, description: 'The failure. Read the job for its message.' },
      ),
    ),
  },
  { description: 'The data of an event of a job.' },
);

export const DisabledData = shape(
  'WebhookDisabledData',
  {
    webhook_id: Type.String({ format: 'uuid', description: 'The id of the webhook.' }),
    url: Type.String({ description: 'The URL of the webhook.' }),
    reason: word(['gone', 'failing'], 'gone: the endpoint returned 410. failing: it failed for too long.'),
    timestamp: timestamp('When it was disabled.'),
  },
  { description: 'The data of webhook.disabled.' },
);

export const TestData = shape(
  'WebhookTestData',
  {
    webhook_id: Type.String({ format: 'uuid', description: 'The id of the webhook.' }),
    timestamp: timestamp('When the test was requested, or when it was sent before a first event.'),
  },
  { description: 'The data of webhook.test.' },
);

export const WebhookMessage = shape(
  'WebhookMessage',
  {
    type: word([...JOB_EVENT_NAMES, DISABLED_EVENT, TEST_EVENT], 'The event.'),
    timestamp: timestamp('When it happened.'),
    data: Type.Unsafe<unknown>({
      anyOf: [JobEventData, DisabledData, TestData].map((data) => named(data)),
      description: 'The facts of the event. Their shape depends on the type.',
    }),
  },
  { description: 'The message to a webhook or callback.' },
);

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
});

/** The requests that the server sends, for the OpenAPI document. */
export const WEBHOOK_CALLS = {
  event: {
    post: {
      tags: ['execution'],
      operationId: 'receiveEvent',
      security: [],
      summary: 'An event for a webhook or for the callback of a job',
      description: 'The server sends this request to your URL. Verify its signature, then return 2xx.',
      parameters: [
        header('webhook-id', 'The same for every attempt and redelivery.'),
        header('webhook-timestamp', 'The time of this attempt in seconds since 1970.'),
        header('webhook-signature', 'v1,<base64> for each live secret: HMAC-SHA256 over id.timestamp.body.'),
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { $ref: `#/components/schemas/${WebhookMessage.$id}` } } },
      },
      responses: {
        '2XX': { description: 'The event was received.' },
        '410': { description: 'The endpoint is gone: the webhook is disabled.' },
        default: {
          description: 'The event is sent again after Retry-After (at most an hour), until no attempts are left.',
        },
      },
    },
  },
} as const;
