import { type Static, Type } from 'typebox';
import { MAX_REASON_LENGTH } from '../../core/governance/audit-action.ts';
import { CLAIM_ORDERS, QUEUE_NUMBERS } from '../../core/governance/queue-settings.ts';
import { named, shape, textOrNull, timestamp, word, wordOrNull } from '../shared/shapes.ts';

type Bounds = { min?: number; above?: number; max: number; isWhole?: boolean };

const numberOrNull = (description: string) => Type.Unsafe<number | null>({ type: ['number', 'null'], description });

const setting = ({ min, above, max, isWhole = false }: Bounds, description: string) =>
  Type.Optional(
    Type.Unsafe<number | null>({
      type: [isWhole ? 'integer' : 'number', 'null'],
      ...(min === undefined ? {} : { minimum: min }),
      ...(above === undefined ? {} : { exclusiveMinimum: above }),
      maximum: max,
      description: `${description} Null removes it.`,
    }),
  );

const ORDER = 'fair: orgs take turns among jobs of one priority; fifo: by order of submission over all orgs.';
const CONCURRENCY = 'Its jobs that run at the same time, over all workers.';
const RATE = 'Its jobs that start a second, over all workers.';
const DEPTH_CAP = 'Its jobs that may wait for a worker; further ones are refused with 429.';
const SLO = 'How long its jobs should wait at most, in seconds.';
const SHARE = 'The part of the slots of each worker that jobs of other queues do not take, from 0 to 1.';

export const OperatorQueue = shape('Queue', {
  name: Type.String({ examples: ['q:default'] }),
  order: word(CLAIM_ORDERS, ORDER),
  paused: Type.Boolean({ description: 'No job of the queue starts.' }),
  draining: Type.Boolean({ description: 'New jobs are refused with 429; those that wait still run.' }),
  waiting: Type.Integer({ description: 'Jobs that could start now. In q:deadletter: the dead letters.' }),
  running: Type.Integer(),
  oldest_waiting_seconds: numberOrNull('How long the job that has waited longest could have started; null if none waits.'),
  concurrency: numberOrNull(CONCURRENCY),
  rate: numberOrNull(RATE),
  depth_cap: numberOrNull(DEPTH_CAP),
  slo_seconds: numberOrNull(SLO),
  slo_met: Type.Unsafe<boolean | null>({
    type: ['boolean', 'null'],
    description:
      'Whether at least 99 % of the starts of the last hour came within slo_seconds and no job waits longer; null without a target, and while nothing was started.',
  }),
  reserved_share: numberOrNull(SHARE),
});

export const OperatorQueueList = shape('QueueList', {
  items: Type.Array(named(OperatorQueue)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

const REASON = Type.Optional(Type.String({ maxLength: MAX_REASON_LENGTH, description: 'Why; it is written to the audit trail.' }));

export const WithReason = Type.Object({ reason: REASON }, { additionalProperties: false });

export const QueueChange = Type.Object(
  {
    order: Type.Optional(wordOrNull(CLAIM_ORDERS, `${ORDER} null: fair.`)),
    concurrency: setting(QUEUE_NUMBERS.concurrency, CONCURRENCY),
    rate: setting(QUEUE_NUMBERS.rate, RATE),
    depth_cap: setting(QUEUE_NUMBERS.depthCap, DEPTH_CAP),
    slo_seconds: setting(QUEUE_NUMBERS.sloSeconds, SLO),
    reserved_share: setting(QUEUE_NUMBERS.reservedShare, SHARE),
    reason: REASON,
  },
  { additionalProperties: false },
);

export type QueueChangeBody = Static<typeof QueueChange>;

export const OperatorType = shape('JobType', {
  type: Type.String(),
  paused: Type.Boolean({ description: 'No job of the type starts.' }),
  concurrency: numberOrNull('Its jobs that run at the same time, over all workers; null: any number.'),
  running: Type.Integer(),
  served: Type.Boolean({ description: 'Whether a live worker has a handler for it.' }),
  worker_ids: Type.Array(Type.Integer(), { description: 'The live workers that have a handler for it.' }),
  custom_backoff: Type.Boolean({ description: 'Whether its handler chooses the delays of retries.' }),
  announced_at: timestamp('When a worker last registered its handler.'),
});

export const OperatorTypeList = shape('JobTypeList', {
  items: Type.Array(named(OperatorType)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});

export const PausedType = shape('PausedType', { type: Type.String(), paused: Type.Boolean() });

export const OperatorWorker = shape('Worker', {
  worker_id: Type.Integer(),
  name: Type.String(),
  status: word(['alive', 'stalled', 'silent', 'stopped'], 'stalled: a handler blocks it. silent: no heartbeat for 30 seconds.'),
  host: Type.String({ description: 'For the key of an org: a name that tells hosts apart.' }),
  pid: Type.Integer(),
  started_at: timestamp('When it was started.'),
  last_seen_at: timestamp('Its last heartbeat.'),
  slots: Type.Integer({ description: 'How many jobs it runs at most.' }),
  running: Type.Integer({ description: 'For the key of an org: jobs of that org.' }),
  queues: Type.Array(Type.String(), { description: 'The queues that it serves; * means all.' }),
  types: Type.Array(Type.String(), { description: 'The types that it has handlers for.' }),
});

export const OperatorWorkerList = shape('WorkerList', {
  items: Type.Array(named(OperatorWorker)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});
