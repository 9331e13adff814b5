import { Type } from 'typebox';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../../core/execution/states.ts';
import { FAILURE_CATEGORIES } from '../../../core/failure.ts';
import { DISABLED_EVENT, JOB_EVENT_NAMES, TEST_EVENT } from '../../../core/public-events.ts';
import { named, shape, textOrNull, timestamp, word, wordOrNull } from '../../shared/shapes.ts';

const JobEventData = shape('WebhookJobData', {
  event_id: Type.String({ description: 'The id of the event, as in the report of its job.' }),
  job_id: Type.String({ format: 'uuid' }),
  event_name: word(JOB_EVENT_NAMES),
  prev_state: wordOrNull(EXECUTION_STATES, 'Null for the first.'),
  next_state: word(EXECUTION_STATES),
  timestamp: timestamp('When it happened.'),
  scenario: textOrNull('The work kind; null for jobs of other APIs.'),
  job_type: Type.String(),
  attempt: Type.Integer({ minimum: 0, description: 'Attempts begun until then.' }),
  reason: Type.Optional(Type.String({ description: 'Why, where that is known.' })),
  retries_exhausted: Type.Optional(Type.Literal(true)),
  state: Type.Optional(Type.String({ description: 'Of jobs of other APIs: the state as those name it.' })),
  outcome: Type.Optional(word(EXECUTION_OUTCOMES, 'Once the job has one.')),
  error: Type.Optional(
    Type.Object(
      { category: word(FAILURE_CATEGORIES), code: Type.Optional(Type.String()) },
      { additionalProperties: false, description: 'Of what kind the failure was; its message is with the job.' },
    ),
  ),
});

const DisabledData = shape('WebhookDisabledData', {
  webhook_id: Type.String({ format: 'uuid' }),
  url: Type.String(),
  reason: word(['gone', 'failing'], 'gone: it answered 410. failing: it did nothing but fail.'),
  timestamp: timestamp('When it was disabled.'),
});

const TestData = shape('WebhookTestData', {
  webhook_id: Type.String({ format: 'uuid' }),
  timestamp: timestamp('When it was asked for.'),
});

const WebhookMessage = shape(
  'WebhookMessage',
  {
    type: word([...JOB_EVENT_NAMES, DISABLED_EVENT, TEST_EVENT]),
    timestamp: timestamp('When it happened.'),
    data: Type.Unsafe<unknown>({ anyOf: [JobEventData, DisabledData, TestData].map((data) => named(data)) }),
  },
  { description: 'What a webhook or a callback is sent.' },
);

export const WEBHOOK_MESSAGE_SHAPES = [JobEventData, DisabledData, TestData, WebhookMessage];

const header = (name: string, description: string) => ({
  ...{ name, in: 'header', required: true, description },
  schema: { type: 'string' },
});

/** The requests that the server makes, for the document. */
export const WEBHOOK_CALLS = {
  event: {
    post: {
      tags: ['execution'],
      operationId: 'receiveEvent',
      security: [],
      summary: 'An event, for a webhook that asked for it or the callback of its job',
      parameters: [
        header('webhook-id', 'The same whenever this message is sent again.'),
        header('webhook-timestamp', 'Seconds since 1970, of this attempt.'),
        header('webhook-signature', 'v1,<base64> for each live secret: HMAC-SHA256 over id.timestamp.body.'),
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { $ref: `#/components/schemas/${WebhookMessage.$id}` } } },
      },
      responses: {
        '2XX': { description: 'It arrived.' },
        '410': { description: 'Nobody lives here any more: the webhook is disabled.' },
        default: {
          description: 'It is tried again, not before Retry-After (an hour at most), until its attempts are used up.',
        },
      },
    },
  },
} as const;
