import type { FastifyReply } from 'fastify';
import { AppError } from '../../core/errors.ts';

/** Returns a signal that is aborted when the client has gone or was answered. Work that takes several statements then stops. */
export function signalOf(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort(new AppError('UNAVAILABLE', { message: 'The request ended before its work was done.' }));
  if (reply.raw.closed) abort();
  else reply.raw.once('close', abort);
  return controller.signal;
}
