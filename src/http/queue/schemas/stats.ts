import { Type } from 'typebox';
import { PRIORITIES } from '../../../core/priority.ts';
import { STATE_WORD_LIST } from '../words.ts';
import { durationInput, durationOrNull, named, shape, word } from './shapes.ts';

const BREAKDOWNS = ['TYPE', 'PRIORITY', 'STATE'] as const;

export const StatsQuery = Type.Object(
  {
    breakdown_by: Type.Optional(Type.Array(word(BREAKDOWNS), { maxItems: 10, description: 'Repeat for several.' })),
    time_range: Type.Optional(durationInput('The history to include. Default: one hour.')),
  },
  { additionalProperties: false },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const Counts = shape(
  'Counts',
  {
    pending: count('PENDING, SCHEDULED, DELAYED and RETRYING.'),
    running: count('RUNNING.'),
    completed: count('COMPLETED within the time range.'),
    failed: count('FAILED and DEAD_LETTER within the time range.'),
  },
  { description: 'Numbers of jobs.' },
);

export const LatencyStats = shape(
  'LatencyStats',
  {
    p50: durationOrNull('The median.'),
    p90: durationOrNull('The 90th percentile.'),
    p99: durationOrNull('The 99th percentile.'),
    max: durationOrNull('The longest.'),
  },
  { description: 'Members are null if nothing was measured within the time range.' },
);

const countsBy = (words: readonly string[]) =>
  Type.Unsafe<Record<string, { pending: number; running: number; completed: number; failed: number }>>({
    type: 'object',
    properties: Object.fromEntries(words.map((each) => [each, { $ref: 'Counts#' }])),
    additionalProperties: words.length === 0 ? { $ref: 'Counts#' } : false,
    description: 'Present if breakdown_by names it.',
  });

const rate = (description: string) => Type.Number({ minimum: 0, description: `${description} per second.` });

export const QueueStats = shape(
  'QueueStats',
  {
    pending: count('Jobs that wait for other jobs.'),
    scheduled: count('Jobs ready for workers.'),
    running: count('Jobs executing now.'),
    delayed: count('Jobs that wait for their time.'),
    retrying: count('Jobs that wait for their next attempt.'),
    completed: count('Within the time range.'),
    failed: count('Within the time range.'),
    dead_letter: count('Within the time range.'),
    cancelled: count('Within the time range.'),
    submission_rate: rate('Jobs submitted'),
    completion_rate: rate('Jobs completed'),
    failure_rate: rate('Jobs failed or dead-lettered'),
    queue_latency: named(LatencyStats, { description: 'Time from ready to start.' }),
    execution_time: named(LatencyStats, { description: 'Handler duration.' }),
    by_type: Type.Optional(countsBy([])),
    by_priority: Type.Optional(countsBy(PRIORITIES)),
    by_state: Type.Optional(countsBy(STATE_WORD_LIST)),
  },
  { description: 'Numbers, rates and latencies of the jobs of the org.' },
);
