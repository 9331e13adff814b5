import type { FastifyReply } from 'fastify';

/**
 * Headers of every response: no guessing of media types, no frames, and no copies in caches, because responses can contain secrets.
 * The pages for people replace the last two.
 */
export const CONSTANT_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
} as const;

export function setConstantHeaders(reply: FastifyReply, requestId: string): void {
  reply.header('x-request-id', requestId);
  reply.header('x-content-type-options', CONSTANT_HEADERS['x-content-type-options']);
  reply.header('content-security-policy', CONSTANT_HEADERS['content-security-policy']);
  reply.header('cache-control', CONSTANT_HEADERS['cache-control']);
}
