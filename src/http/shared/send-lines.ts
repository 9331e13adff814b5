import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply } from 'fastify';

/** Sends lines of JSON. Reads them only as fast as the client does. */
export function sendLines(reply: FastifyReply, text: AsyncGenerator<string>): FastifyReply {
  const headers = reply.getHeaders() as Record<string, string>;
  reply.hijack();
  reply.raw.writeHead(200, {
    ...headers,
    'content-type': 'application/x-ndjson; charset=utf-8',
    'cache-control': 'no-store',
    connection: 'close',
  });
  // If there is no line for a while, the headers arrive before the first one.
  reply.raw.flushHeaders();
  pipeline(Readable.from(text, { objectMode: false }), reply.raw).catch(() => {});
  return reply;
}
