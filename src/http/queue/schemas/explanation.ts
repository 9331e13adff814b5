import { Type } from 'typebox';
import { duration, JobId, JobType, named, State, shape, timestamp, timestampOrNull } from './shapes.ts';

export const Cap = shape(
  'Cap',
  {
    cap: Type.Integer({ description: 'How many of these jobs may run at the same time, in all workers together.' }),
    live: Type.Integer({ description: 'Jobs that count against it now.' }),
  },
  { description: 'A cap on running jobs.' },
);

export const Holder = shape(
  'Holder',
  {
    worker_id: Type.Integer({ description: 'The number of the worker.' }),
    name: Type.String({ description: 'The worker, by a name of the API.' }),
    host: Type.String({ description: 'Its host, by a name of the API.' }),
    lease_left: duration('How long the lease lasts without another heartbeat.'),
  },
  { description: 'The worker that has claimed the job.' },
);

export const Share = shape(
  'Share',
  {
    slots: Type.Integer({ description: 'The slots of the workers in serving_workers.' }),
    own_slots: Type.Integer({ description: 'How many of them run jobs of its org.' }),
    open_slots: Type.Integer({ description: 'How many of them are free for this job.' }),
    reserved_slots: Type.Integer({ description: 'How many of them are free, but only for orgs of which the worker runs no job.' }),
    waiting_orgs: Type.Integer({ description: 'Other orgs that wait for the same slots; 1 000 means 1 000 or more.' }),
  },
  { description: 'How the slots of the workers are divided between orgs.' },
);

export const CancelRequest = shape(
  'CancelRequest',
  {
    requested_at: timestamp('When it was made.'),
    force: Type.Boolean({ description: 'Whether the job ends even if its handler goes on.' }),
  },
  { description: 'A request to cancel the running job.' },
);

export const LimitFacts = shape(
  'LimitFacts',
  {
    key: Type.String({ description: 'Jobs of the org with the same key share the limit.' }),
    concurrency: Type.Union([Type.Integer(), Type.Null()], { description: 'How many of them run at the same time; null means no limit.' }),
    rate: Type.Union([Type.Integer(), Type.Null()], { description: 'How many of them start within `per`; null means no limit.' }),
    per: Type.Union([Type.String(), Type.Null()], { description: 'The time of the rate, as an ISO 8601 duration; null without a rate.' }),
    running: Type.Integer({ description: 'Jobs with the key that run, or that workers may start now.' }),
    running_ids: Type.Array(Type.String(), { description: 'The first five of them.' }),
    started: Type.Integer({ description: 'Starts that still count towards the rate, and jobs that may start now.' }),
    ahead: Type.Integer({ description: 'Jobs with the key that wait before it; 10 001 means more than 10 000.' }),
  },
  { description: 'The limit that the job waits for.' },
);

export const JobFacts = shape(
  'JobFacts',
  {
    type: JobType,
    queue: Type.String({ description: 'The queue of the job.' }),
    run_at: timestamp('The earliest start.'),
    run_in: duration('How long until then.'),
    unmet_dependencies: Type.Array(Type.Object({ job_id: JobId, state: State }), { description: 'The jobs that must end first.' }),
    queue_paused_at: timestampOrNull('When its queue was paused.'),
    queue_draining_at: timestampOrNull('Since when its queue accepts no new jobs. Jobs that wait there still run.'),
    queue_concurrency: Type.Optional(Type.Integer({ description: 'If its queue has a cap on running jobs.' })),
    queue_rate: Type.Optional(Type.Number({ description: 'If its queue has a rate: starts a second.' })),
    type_paused_at: timestampOrNull('When its type was paused.'),
    type_cap: Type.Optional(named(Cap, { description: 'If its type has a cap on running jobs.' })),
    org_cap: Type.Optional(named(Cap, { description: 'If its org has a cap on running jobs.' })),
    serving_workers: Type.Integer({ description: 'The number of live workers that take this type from this queue.' }),
    ahead_in_line: Type.Optional(Type.Integer({ description: 'Ready jobs before it; 10 001 means more than 10 000.' })),
    share: Type.Optional(named(Share, { description: 'If it is ready: what its org has of the slots.' })),
    holder: Type.Optional(named(Holder, { description: 'The worker that holds it.' })),
    cancel_request: Type.Optional(named(CancelRequest, { description: 'If someone asked to cancel it.' })),
    limit: Type.Optional(named(LimitFacts, { description: 'If it waits for its limit.' })),
    held_for_children: Type.Optional(Type.Integer({ description: 'The number of spawned jobs that must end before it completes.' })),
  },
  { description: 'What decides whether the job can run now.' },
);

export const Explanation = shape(
  'Explanation',
  {
    job_id: JobId,
    state: State,
    summary: Type.String({ description: 'One sentence that says what to do.' }),
    obstacles: Type.Array(
      Type.Object({
        code: Type.String({ description: 'The obstacle, for programs.', examples: ['NO_WORKER', 'QUEUE_PAUSED', 'DEPENDENCY', 'TIME'] }),
        message: Type.String({ description: 'The obstacle, for people.' }),
      }),
      { description: 'The reasons, in the order in which to remove them.' },
    ),
    facts: named(JobFacts),
  },
  { description: 'Why the job is in its state.' },
);
