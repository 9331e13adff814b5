import { BOOLEAN, duration, integer, type Setting, setting } from './setting.ts';

/** The settings of one queue, `[queues."name"]`. */
export const QUEUE_SETTINGS = {
  order: setting(
    { type: 'text', choices: ['fifo', 'fair'] },
    null,
    '"fair" (the order of a new queue): orgs take turns among jobs of one priority; "fifo": by order of submission over all orgs',
  ),
  paused: setting(BOOLEAN, null, 'no job of the queue starts while it is paused'),
  concurrency: setting(integer(0, 1_000_000_000), null, 'how many of its jobs run at the same time, over all workers; 0 removes the cap'),
  rate: setting(
    { type: 'number', min: 0, max: 1_000_000 },
    null,
    'how many of its jobs start a second, over all workers; 0.5 is one every two seconds; 0 removes the rate',
  ),
  depth_cap: setting(
    integer(0, 1_000_000_000),
    null,
    'how many of its jobs may wait for a worker; beyond that /queue returns 429; by default 1000 in `q:critical`; 0 removes the cap',
  ),
  slo: setting(
    duration(0),
    null,
    'how long its jobs should wait at most; by default 5s in `q:critical`, 60s in `q:default`, 30s in `q:notifications`, 10m in `q:planning` and `q:exports`, 1h in `q:maintenance`; 0s removes the target',
  ),
  reserved_share: setting(
    { type: 'number', min: 0, max: 1 },
    null,
    'the part of the slots of each worker that jobs of other queues do not take, rounded down to whole slots; by default 0.1 in `q:default`',
  ),
  limit: setting(
    { type: 'limit' },
    null,
    'how many of its jobs run at the same time or start within a time, for jobs whose submission and type have no limit; the key may contain placeholders: `{ key = "mail-{payload.customer}", concurrency = 1 }`, `{ key = "mail", rate = 5, per = "1s" }`; "none" removes it',
  ),
} as const satisfies Record<string, Setting>;
