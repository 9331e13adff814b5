import type { JobEvent, JobState, LogEvent, ProgressEvent, StreamError } from './api-types.ts';
import { ApiError } from './errors.ts';
import { readEvents, type ServerSentEvent } from './event-source.ts';
import { type Call, Deadline, delayOf, mayPass, networkError, pause, type Transport } from './transport.ts';

/** An event of a stream. */
export type FollowedEvent = {
  /** Pass it as `lastEventId` to continue after this event. */
  id: string;
  /** For example `job.completed`. */
  event: string;
  /** The job, and what happened to it. */
  data: JobEvent;
};

/** A handler reported its progress. It has no id: a stream that reconnects sends the newest progress again. */
export type FollowedProgress = {
  /** No stream can continue after progress. */
  id: null;
  /** The name of the event. */
  event: 'job.progress';
  /** The job, and how far it is. */
  data: ProgressEvent;
};

/** A handler logged a line. */
export type FollowedLine = {
  /** Pass it as `lastEventId` to continue after this line. Null on the stream of an org. */
  id: string | null;
  /** The name of the event. */
  event: 'job.log';
  /** The job, and the line. */
  data: LogEvent;
};

/** What a stream with `include` yields. */
export type FollowedNews = FollowedEvent | FollowedProgress | FollowedLine;

/** Where a stream starts, and when it ends. */
export type FollowOptions = {
  /** Continue after this event instead of from now on. */
  lastEventId?: string;
  /** Ends the stream. */
  signal?: AbortSignal;
};

export type Follow = FollowOptions & {
  transport: Transport;
  path: string;
  query?: Call['query'];
  /** A stream of one job ends with the event that ends the job. Other streams never end. */
  isOfOneJob: boolean;
  maxFailures?: number;
};

/** The server sends at least a comment every 15 seconds. */
const SILENCE_MS = 45_000;
/** Gives up after this many consecutive failures, about five minutes. */
const MAX_FAILURES = 60;
export const TERMINAL: ReadonlySet<JobState> = new Set(['COMPLETED', 'FAILED', 'DEAD_LETTER', 'CANCELLED']);
const REFUSALS = new Set(['UNAUTHORIZED', 'FORBIDDEN']);

/** Yields the events of a stream. It reconnects after the last event, so no event is missed or repeated. */
export async function* follow(params: Follow): AsyncGenerator<FollowedNews, void> {
  const { isOfOneJob, signal, maxFailures = MAX_FAILURES } = params;
  const place: Place = { lastEventId: params.lastEventId, isOver: false };
  for (let failures = 0; ; ) {
    let error: ApiError | null = null;
    try {
      for await (const event of readOnce(params, place)) {
        failures = 0;
        yield event;
      }
      if (isOfOneJob && place.isOver) return;
    } catch (caught) {
      signal?.throwIfAborted();
      error = caught instanceof ApiError ? caught : networkError(caught);
      if (!mayPass(error) || failures >= maxFailures) throw error;
    }
    await pause(delayOf(error, failures++), signal);
  }
}

type Place = { lastEventId: string | undefined; isOver: boolean };

async function* readOnce(params: Follow, place: Place): AsyncGenerator<FollowedNews> {
  const { transport, path, query, signal } = params;
  const watchdog = new Watchdog(signal);
  const headers = place.lastEventId === undefined ? undefined : { 'last-event-id': place.lastEventId };
  try {
    const response = await transport.open({ method: 'GET', path, query, headers, signal: watchdog.signal });
    if (response.status === 204) place.isOver = true;
    if (response.body === null) return;
    for await (const block of readEvents(response.body)) {
      watchdog.stop();
      place.lastEventId = block.id ?? place.lastEventId;
      const event = toEvent(block);
      if (event !== null) {
        if ('to_state' in event.data) place.isOver = TERMINAL.has(event.data.to_state);
        yield event;
      }
      watchdog.start();
    }
  } finally {
    watchdog.abort();
  }
}

function toEvent({ id, event, data }: ServerSentEvent): FollowedNews | null {
  if (event === 'job.progress') return { id: null, event, data: JSON.parse(data) as ProgressEvent };
  if (event === 'job.log') return { id, event, data: JSON.parse(data) as LogEvent };
  if (event === null || id === null) return null;
  if (event === 'error') throw farewell(JSON.parse(data) as StreamError);
  return { id, event, data: JSON.parse(data) as JobEvent };
}

/** The server ended the stream early. The client reconnects unless its key was refused. */
function farewell({ code, message }: StreamError): ApiError {
  return new ApiError({ status: REFUSALS.has(code) ? 403 : 503, code, message });
}

/** Aborts an idle connection, which may be dead although it was never closed. */
class Watchdog {
  readonly #deadline: Deadline;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(signal?: AbortSignal) {
    this.#deadline = new Deadline(Number.POSITIVE_INFINITY, signal);
    this.start();
  }

  get signal(): AbortSignal {
    return this.#deadline.signal;
  }

  start(): void {
    this.#timer = setTimeout(() => this.#deadline.abort(), SILENCE_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  abort(): void {
    this.stop();
    this.#deadline.abort();
    this.#deadline.clear();
  }
}
