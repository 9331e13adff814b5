import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { type FoundArtifact, openContent } from '../../services/artifacts/read-artifacts.ts';
import { attachmentHeader, chooseRange, matchesTag } from './artifact-headers.ts';
import { renderError } from './render.ts';

type Sending = { readonly engine: Engine; readonly request: FastifyRequest; readonly reply: FastifyReply };

/** Sends the bytes of an artifact, or the part that the request asks for. The client decides how fast. */
export async function sendContent({ engine, request, reply }: Sending, found: FoundArtifact): Promise<FastifyReply> {
  const { size, sha256, contentType, name } = found.artifact;
  const tag = `"${sha256}"`;
  const { range: wanted, 'if-range': condition, 'if-none-match': known } = request.headers;
  reply.header('etag', tag).header('accept-ranges', 'bytes');
  if (matchesTag(known, tag)) return reply.code(304).send();
  const range = condition === undefined || condition === tag ? chooseRange(wanted, size) : ({ kind: 'whole' } as const);
  if (range.kind === 'none') return refuseRange(request, reply, size);
  const isPart = range.kind === 'part';
  const length = isPart ? range.end - range.start + 1 : size;
  const headers = {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': contentType,
    'content-length': String(length),
    'content-disposition': attachmentHeader(name),
    ...(isPart ? { 'content-range': `bytes ${range.start}-${range.end}/${size}` } : {}),
  };
  const isHead = request.method === 'HEAD';
  const body = isHead ? null : await openContent(engine, { ...found, ...(isPart ? { range } : {}) });
  // A hijacked reply is exempt from the time limit of requests. The socket still ends a client that reads nothing.
  reply.hijack();
  reply.raw.writeHead(isPart ? 206 : 200, headers);
  if (body === null) reply.raw.end();
  else await pipeline(body instanceof Readable ? body : Readable.from(body), reply.raw).catch(() => reply.raw.destroy());
  return reply;
}

function refuseRange(request: FastifyRequest, reply: FastifyReply, size: number): FastifyReply {
  const message = `No byte of the range exists: the artifact has ${size} bytes.`;
  const error = new AppError('INVALID_REQUEST', { message, details: [{ field: 'Range', code: 'OUT_OF_RANGE', message }] });
  reply.code(416).header('content-range', `bytes */${size}`).type('application/json; charset=utf-8');
  return reply.serializer(JSON.stringify).send(renderError(error, request.id));
}
