import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { AppError, isAppError } from '../../core/errors.ts';
import { FIRST_LINE } from '../../core/job-log.ts';
import { isTerminal } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { EventFeed, type FeedSettings } from '../../engine/follow/feed.ts';
import { type FeedCursors, invalidFeedCursor } from '../../engine/follow/feed-cursor.ts';
import type { FeedFilter } from '../../engine/follow/feed-subscription.ts';
import { OrgNewsFeed } from '../../engine/follow/org-news.ts';
import { isAbout } from '../../engine/news.ts';
import { readJob } from '../../services/jobs/read-job.ts';
import type { Http } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { jobStreamText, orgStreamText, type StreamRules, sendEventStream } from './event-stream.ts';
import { callerOf } from './operation.ts';
import { errorResponses } from './schemas/error.ts';
import { EventQuery, JobEvent, JobEventQuery, LogEvent, ProgressEvent, ResumeHeaders, StreamError } from './schemas/event.ts';
import { JobParams, named } from './schemas/shapes.ts';
import { stateOf } from './words.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Checks during a stream whether its key is still valid. */
    authenticator?: Authenticator;
  }
}

export type EventStreamSettings = FeedSettings & {
  heartbeatMs?: number;
  /** How long a client that is too slow may still read the events in its buffer. */
  graceMs?: number;
};

const HEARTBEAT_MS = 15_000;
const GRACE_MS = 5_000;

const streamOf = (description: string) => ({
  description,
  content: { 'text/event-stream': { schema: Type.Union([named(JobEvent), named(ProgressEvent), named(LogEvent), named(StreamError)]) } },
});

const ORG_STREAM = {
  summary: 'Follow the state changes of all jobs',
  description:
    'Sends server-sent events, one for each change, from now on or after Last-Event-ID. With include, it also sends progress and log lines that come while the stream is open. If the server ends the stream, its last event is named error and says where to resume.',
  operationId: 'followEvents',
  querystring: EventQuery,
  headers: ResumeHeaders,
  response: { 200: streamOf('Events, until the client or the server closes.'), ...errorResponses() },
};

const JOB_STREAM = {
  summary: 'Follow one job to its end',
  description:
    'Sends the whole history of the job, then each change as it happens. With include, it also sends the newest progress and all stored log lines. The stream ends after the last event of the job.',
  operationId: 'followJob',
  params: JobParams,
  querystring: JobEventQuery,
  headers: ResumeHeaders,
  response: {
    200: streamOf('Events, until the job has ended.'),
    204: { description: 'The job has ended, and there is no event after the given id.', type: 'null' },
    ...errorResponses(404),
  },
};

export function registerEventRoutes(http: Http, engine: Engine, settings: EventStreamSettings = {}): void {
  const { heartbeatMs = HEARTBEAT_MS, graceMs = GRACE_MS, ...rest } = settings;
  const { database, events, reader } = engine;
  const hints = () => engine.notifier.news;
  const feed = new EventFeed({ database, events, settings: rest });
  const newsFeed = new OrgNewsFeed({ database, events, hints });
  const rulesOf = (request: FastifyRequest, ids: FeedCursors): StreamRules => ({ ids, heartbeatMs, check: () => recheck(http, request) });
  for (const schema of [JobEvent, ProgressEvent, LogEvent, StreamError]) http.addSchema(schema);
  http.addHook('preClose', async () => {
    await Promise.all([feed.stop(), newsFeed.stop()]);
  });

  const options = { exposeHeadRoute: false, config: { scopes: ['jobs:read'] as const } };
  http.get('/events', { ...options, schema: ORG_STREAM }, async (request, reply) => {
    const { owner } = callerOf(request);
    const ids = await feed.cursors(owner.orgId);
    const after = positionIn(request.headers['last-event-id'] ?? request.query.last_event_id, ids);
    const onOverflow = () => void setTimeout(() => reply.raw.destroy(), graceMs).unref();
    const filter = filterOf(request.query);
    const subscription = await feed.follow(owner, { after, filter, onOverflow });
    const wants = new Set(request.query.include);
    const unsent = wants.size === 0 ? null : newsFeed.follow({ owner, filter, wants, onNews: () => subscription.wake() });
    sendEventStream(reply, orgStreamText(subscription, unsent, rulesOf(request, ids)), () => {
      subscription.close();
      unsent?.close();
    });
  });

  http.get('/jobs/:id/events', { ...options, schema: JOB_STREAM }, async (request, reply) => {
    const { owner } = callerOf(request);
    const ids = await feed.cursors(owner.orgId);
    const resume = positionIn(request.headers['last-event-id'] ?? request.query.last_event_id, ids);
    const job = await readJob(engine, { ...owner, id: request.params.id });
    if (job === null) throw new AppError('NOT_FOUND', { message: `Job ${request.params.id} does not exist.` });
    if (resume !== undefined && resume.jobSeq !== job.seq) throw invalidFeedCursor();
    const after = resume ?? { txid: 0, recordId: 0, jobSeq: job.seq, n: 0, lines: FIRST_LINE };
    if (isTerminal(job.state) && (await feed.readJob(owner, { jobId: job.id, afterN: after.n })).length === 0)
      return reply.code(204).send();
    const watch = await feed.watch(owner.orgId, job.id);
    const wants = new Set(request.query.include);
    const text = jobStreamText({ feed, reader, watch, owner, job, wants, after }, rulesOf(request, ids));
    const unlisten = wants.size === 0 ? () => {} : hints().listen((changed) => isAbout(job.seq, changed) && watch.wake());
    return sendEventStream(reply, text, () => {
      unlisten();
      watch.close();
    });
  });
}

const positionIn = (given: string | undefined, ids: FeedCursors): ReturnType<FeedCursors['read']> | undefined =>
  given === undefined || given === '' ? undefined : ids.read(given);

function filterOf({ type, state, job_id }: Static<typeof EventQuery>): FeedFilter {
  return {
    ...(type === undefined ? {} : { types: new Set(type) }),
    ...(state === undefined ? {} : { states: new Set(state.map(stateOf)) }),
    ...(job_id === undefined ? {} : { jobIds: new Set(job_id.map((id) => id.toLowerCase())) }),
  };
}

/** A key that is revoked during the stream ends it. An unreachable database does not. */
async function recheck(http: Http, request: FastifyRequest): Promise<void> {
  await http.authenticator?.authenticate(request.headers.authorization).catch((error) => {
    if (!isAppError(error, 'UNAVAILABLE')) throw error;
  });
}
