import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply } from 'fastify';
import type { AppError } from '../../core/errors.ts';
import { currentAttempt } from '../../core/job.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { type FeedEvent, type FeedPosition, writeFeedCursor } from '../../engine/follow/feed-cursor.ts';
import { STATE_WORDS } from './words.ts';

/** How long browsers wait before they reconnect. */
const RETRY_MS = 1_000;
const EVENTS_IN_A_CHUNK = 100;

/**
 * Sends a stream of text. It reads the text only as fast as the client does, so a slow client costs one socket buffer.
 * `onEnd` is called when either side closes the stream.
 */
export function sendEventStream(reply: FastifyReply, text: AsyncGenerator<string>, onEnd: () => void): void {
  const headers = reply.getHeaders() as Record<string, string>;
  reply.hijack();
  reply.raw.once('close', onEnd);
  reply.raw.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    connection: 'close', // A server that shuts down waits for keep-alive connections; this one ends with its stream.
  });
  // A client that disconnects is not an error, even if it did so before the first event.
  pipeline(Readable.from(text, { objectMode: false }), reply.raw)
    .catch(() => {})
    .finally(onEnd);
}

/** Sends the start position, so that a client that disconnects before the first event can resume without a gap. */
export const opening = (position: FeedPosition): string =>
  `retry: ${RETRY_MS}\nid: ${writeFeedCursor(position)}\n: connected\n\n`;

/** Keeps the connection alive, and moves the resume position past events that the filter excludes. */
export const heartbeat = (position: FeedPosition): string => `id: ${writeFeedCursor(position)}\n: heartbeat\n\n`;

export function* eventChunks(events: readonly FeedEvent[]): Generator<string> {
  for (let at = 0; at < events.length; at += EVENTS_IN_A_CHUNK) {
    yield events
      .slice(at, at + EVENTS_IN_A_CHUNK)
      .map(eventText)
      .join('');
  }
}

function eventText(event: FeedEvent): string {
  const data = {
    job_id: event.jobId,
    type: event.type,
    from_state: event.from === null ? null : STATE_WORDS[event.from],
    to_state: STATE_WORDS[event.to],
    timestamp: formatTimestamp(event.at),
    reason: event.reason,
    attempt: currentAttempt(event.attempt),
    sequence: event.n,
  };
  return `id: ${writeFeedCursor(event)}\nevent: job.${event.to}\ndata: ${JSON.stringify(data)}\n\n`;
}

export const STREAM_ENDS = {
  SLOW_CONSUMER: 'The client reads events too slowly. Resume after last_event_id.',
  SHUTTING_DOWN: 'The server is shutting down. Resume after last_event_id.',
  UNAVAILABLE: 'Events are not available now. Resume after last_event_id.',
} as const;

/** The last event of a stream that the server ends. */
export function farewell(end: Pick<AppError, 'code' | 'message'> | keyof typeof STREAM_ENDS, position: FeedPosition) {
  const id = writeFeedCursor(position);
  const { code, message } = typeof end === 'string' ? { code: end, message: STREAM_ENDS[end] } : end;
  return `id: ${id}\nevent: error\ndata: ${JSON.stringify({ code, message, last_event_id: id })}\n\n`;
}
