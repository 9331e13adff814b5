import { submissionBytes } from '../../core/body-sizes.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { changeSchedule } from '../../services/schedules/change-schedule.ts';
import { createSchedule } from '../../services/schedules/create-schedule.ts';
import { nextRuns } from '../../services/schedules/next-runs.ts';
import { putSchedule } from '../../services/schedules/put-schedule.ts';
import { listSchedules, readSchedule } from '../../services/schedules/read-schedules.ts';
import { removeSchedule } from '../../services/schedules/remove-schedule.ts';
import { runSchedule } from '../../services/schedules/run-schedule.ts';
import { noSuchSchedule } from '../../services/schedules/schedule-controls.ts';
import { checkReason } from '../../services/schedules/schedule-request.ts';
import type { Http } from '../door.ts';
import type { Intake } from './intake.ts';
import { bodyMayBeAbsent, callerOf, needs } from './operation.ts';
import { refuseSelfRegistered } from './own-types.ts';
import { readChange, readReplacement } from './read-schedule.ts';
import { renderSchedule } from './render-schedule.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import {
  NewSchedule,
  NextRuns,
  NextRunsQuery,
  Schedule,
  ScheduleChange,
  ScheduledJob,
  ScheduleList,
  ScheduleListQuery,
  ScheduleParams,
  ScheduleReason,
  ScheduleReplacement,
} from './schemas/schedule.ts';
import { named } from './schemas/shapes.ts';
import { jsonLimits } from './submit-jobs.ts';

/** How many schedules an org may create over HTTP. Each is looked at on its own when it is due. */
const MAX_SCHEDULES = 1_000;

const ABSENT = { 404: answer(ApiError, 'The org of the key has no such schedule (NOT_FOUND).') };
const inUse = (description: string) => ({ 409: answer(ApiError, description) });
const TAKEN = inUse('The key belongs to another schedule (CONFLICT).');

/** A body may be as large as a submission, because it contains one. */
function writing(engine: Engine) {
  const bodyLimit = submissionBytes(engine.limits.maxPayloadBytes);
  return { config: { ...needs('jobs:write').config, json: jsonLimits(bodyLimit) }, bodyLimit };
}

const termsOf = (requestId: string, { simulation }: Intake) => ({ requestId, knownQueuesOnly: true, simulation });

const listSchema = {
  operationId: 'listSchedules',
  summary: 'List schedules',
  description: 'Returns a page of the schedules of the org, in the order of their keys. A key of a project sees those of its project.',
  querystring: ScheduleListQuery,
  response: { 200: answer(ScheduleList, 'A page of schedules.'), ...errorResponses() },
};

const getSchema = {
  operationId: 'getSchedule',
  summary: 'Get a schedule',
  description: 'Returns one schedule with its next run and its newest job.',
  params: ScheduleParams,
  response: { 200: answer(Schedule, 'The schedule.'), ...errorResponses(), ...ABSENT },
};

const nextSchema = {
  operationId: 'nextRuns',
  summary: 'Get the next runs of a schedule',
  description:
    'Returns the next times of the schedule, as if it were not paused, with the changes of the clocks in its zone. A time that they skip comes at the end of the gap; one that they show twice comes once, the first time. An expression for every hour goes on through the repeated hour.',
  params: ScheduleParams,
  querystring: NextRunsQuery,
  response: { 200: answer(NextRuns, 'The next times.'), ...errorResponses(), ...ABSENT },
};

export function readScheduleRoutes(http: Http, engine: Engine): void {
  http.get('/schedules', { schema: listSchema, ...needs('jobs:read') }, async (request) => {
    const { schedules, nextCursor } = await listSchedules(engine, { ...callerOf(request).owner, ...request.query });
    return { items: schedules.map(renderSchedule), next_cursor: nextCursor };
  });
  http.get('/schedules/:key', { schema: getSchema, ...needs('jobs:read') }, async (request) => {
    const { key } = request.params;
    const schedule = await readSchedule(engine, { ...callerOf(request).owner, key });
    if (schedule === null) throw noSuchSchedule(key);
    return renderSchedule(schedule);
  });
  http.get('/schedules/:key/next', { schema: nextSchema, ...needs('jobs:read') }, async (request) => {
    const { key } = request.params;
    const times = await nextRuns(engine, { ...callerOf(request).owner, key, ...request.query });
    if (times === null) throw noSuchSchedule(key);
    return { items: times.map(formatTimestamp) };
  });
}

const createSchema = {
  operationId: 'createSchedule',
  summary: 'Create a schedule',
  description:
    'Submits a job repeatedly, by cron expression and time zone. Each run has its own job, which knows the time that it was planned for. The key must be new.',
  body: named(NewSchedule),
  response: { 201: answer(Schedule, 'The schedule is created.'), ...errorResponses(), ...TAKEN },
};

const putSchema = {
  operationId: 'putSchedule',
  summary: 'Create or replace a schedule',
  description:
    'Replaces all members of a schedule, or creates it. The next run stays the same, unless the cron expression or the time zone changes or the schedule is resumed.',
  params: ScheduleParams,
  body: named(ScheduleReplacement),
  response: {
    200: answer(Schedule, 'The schedule is replaced.'),
    201: answer(Schedule, 'The schedule is created.'),
    ...errorResponses(),
    ...TAKEN,
  },
};

export function putScheduleRoutes(http: Http, engine: Engine, intake: Intake): void {
  http.post('/schedules', { schema: createSchema, ...writing(engine) }, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { key, reason = null } = request.body;
    const schedule = readReplacement(request.body, key, identity);
    const params = {
      ...owner,
      actor,
      requestId: request.id,
      reason,
      key,
      schedule,
      terms: termsOf(request.id, intake),
      most: MAX_SCHEDULES,
    };
    return reply.code(201).send(renderSchedule(await createSchedule(engine, params)));
  });
  http.put('/schedules/:key', { schema: putSchema, ...writing(engine) }, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { key } = request.params;
    const { reason = null } = request.body;
    const schedule = readReplacement(request.body, key, identity);
    const params = {
      ...owner,
      actor,
      requestId: request.id,
      reason,
      key,
      schedule,
      terms: termsOf(request.id, intake),
      most: MAX_SCHEDULES,
    };
    const put = await putSchedule(engine, params);
    return reply.code(put.isNew ? 201 : 200).send(renderSchedule(put.schedule));
  });
}

const changeSchema = {
  operationId: 'changeSchedule',
  summary: 'Change a schedule',
  description:
    'Changes some members of a schedule, for example paused. Runs that come due while it is paused do not happen, and it does not catch up on them.',
  params: ScheduleParams,
  body: named(ScheduleChange),
  response: { 200: answer(Schedule, 'The schedule as it is now.'), ...errorResponses(), ...ABSENT },
};

const deleteSchema = {
  operationId: 'deleteSchedule',
  summary: 'Delete a schedule',
  description: 'Deletes a schedule. Jobs that it submitted continue.',
  params: ScheduleParams,
  body: named(ScheduleReason),
  response: { 200: answer(Schedule, 'The schedule as it was.'), ...errorResponses(), ...ABSENT },
};

const runSchema = {
  operationId: 'runSchedule',
  summary: 'Run a schedule now',
  description:
    'Submits the job of a schedule now, even if it is paused. Its planned time is the time of this request, and the next run stays the same. If overlap is skip and an earlier job has not ended, the response is 409.',
  params: ScheduleParams,
  body: named(ScheduleReason),
  response: {
    202: answer(ScheduledJob, 'The job is submitted.'),
    ...errorResponses(),
    ...ABSENT,
    ...inUse('An earlier job has not ended, and overlap is skip (CONFLICT).'),
  },
};

export function changeScheduleRoutes(http: Http, engine: Engine, intake: Intake): void {
  http.patch('/schedules/:key', { schema: changeSchema, ...writing(engine) }, async (request) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { key } = request.params;
    const { reason = null } = request.body;
    const change = readChange(request.body, identity);
    const schedule = await changeSchedule(engine, {
      ...owner,
      actor,
      requestId: request.id,
      reason,
      key,
      change,
      terms: termsOf(request.id, intake),
    });
    if (schedule === null) throw noSuchSchedule(key);
    return renderSchedule(schedule);
  });
  http.delete('/schedules/:key', { schema: deleteSchema, ...needs('jobs:write'), ...bodyMayBeAbsent }, async (request) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { key } = request.params;
    const { reason = null } = request.body;
    checkReason(reason);
    const schedule = await removeSchedule(engine, { ...owner, key, actor, reason, requestId: request.id });
    if (schedule === null) throw noSuchSchedule(key);
    return renderSchedule(schedule);
  });
  http.post('/schedules/:key/run', { schema: runSchema, ...needs('jobs:write'), ...bodyMayBeAbsent }, async (request, reply) => {
    const { identity, owner, actor } = callerOf(request);
    refuseSelfRegistered(identity);
    const { key } = request.params;
    const { reason = null } = request.body;
    const run = await runSchedule(engine, { ...owner, actor, requestId: request.id, reason, key });
    if (run === null) throw noSuchSchedule(key);
    return reply.code(202).send({ job_id: run.jobId });
  });
}
