import { Type } from 'typebox';
import { duration, JobId, named, State, shape, timestamp, timestampOrNull } from './shapes.ts';

export const Cap = shape('Cap', {
  cap: Type.Integer(),
  live: Type.Integer({ description: 'Jobs that count against it now.' }),
});

export const Holder = shape('Holder', {
  worker_id: Type.Integer(),
  name: Type.String({ description: 'The worker, by a name of the API.' }),
  host: Type.String({ description: 'Its host, by a name of the API.' }),
  lease_left: duration('How long the lease lasts without another heartbeat.'),
});

export const Share = shape('Share', {
  slots: Type.Integer({ description: 'The slots of the workers in serving_workers.' }),
  own_slots: Type.Integer({ description: 'How many of them run jobs of its org.' }),
  open_slots: Type.Integer({ description: 'How many of them are free for this job.' }),
  reserved_slots: Type.Integer({ description: 'How many of them are free, but only for orgs of which the worker runs no job.' }),
  waiting_orgs: Type.Integer({ description: 'Other orgs that wait for the same slots; 1 000 means 1 000 or more.' }),
});

export const CancelRequest = shape('CancelRequest', { requested_at: timestamp('When.'), force: Type.Boolean() });

export const LimitFacts = shape('LimitFacts', {
  key: Type.String(),
  concurrency: Type.Union([Type.Integer(), Type.Null()]),
  rate: Type.Union([Type.Integer(), Type.Null()]),
  per: Type.Union([Type.String(), Type.Null()]),
  running: Type.Integer({ description: 'Jobs with the key that run, or that workers may start now.' }),
  running_ids: Type.Array(Type.String(), { description: 'The first five of them.' }),
  started: Type.Integer({ description: 'Starts that still count towards the rate, and jobs that may start now.' }),
  ahead: Type.Integer({ description: 'Jobs with the key that wait before it; 10 001 means more than 10 000.' }),
});

export const JobFacts = shape('JobFacts', {
  type: Type.String(),
  queue: Type.String(),
  run_at: timestamp('The earliest start.'),
  run_in: duration('How long until then.'),
  unmet_dependencies: Type.Array(Type.Object({ job_id: Type.String(), state: State })),
  queue_paused_at: timestampOrNull('When its queue was paused.'),
  type_paused_at: timestampOrNull('When its type was paused.'),
  type_cap: Type.Optional(named(Cap, { description: 'If its type has a cap on running jobs.' })),
  org_cap: Type.Optional(named(Cap, { description: 'If its org has a cap on running jobs.' })),
  serving_workers: Type.Integer({ description: 'The number of live workers that take this type from this queue.' }),
  ahead_in_line: Type.Optional(Type.Integer({ description: 'Ready jobs before it; 10 001 means more than 10 000.' })),
  share: Type.Optional(named(Share, { description: 'If it is ready: what its org has of the slots.' })),
  holder: Type.Optional(named(Holder, { description: 'The worker that holds it.' })),
  cancel_request: Type.Optional(named(CancelRequest)),
  limit: Type.Optional(named(LimitFacts, { description: 'If it waits for its limit.' })),
  held_for_children: Type.Optional(Type.Integer({ description: 'The number of spawned jobs that must end before it completes.' })),
});

export const Explanation = shape('Explanation', {
  job_id: JobId,
  state: State,
  summary: Type.String({ description: 'One sentence that says what to do.' }),
  obstacles: Type.Array(
    Type.Object({
      code: Type.String({ examples: ['NO_WORKER', 'QUEUE_PAUSED', 'DEPENDENCY', 'TIME'] }),
      message: Type.String(),
    }),
    { description: 'The reasons, in the order in which to remove them.' },
  ),
  facts: named(JobFacts),
});
