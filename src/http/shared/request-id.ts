import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { newJobId } from '../../engine/submit/new-job-id.ts';

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/**
 * A caller's own id for the request, if it is fit to be repeated in a header; else a new one. What is posted may become a job, and
 * the job then has the id of the request.
 */
export function requestIdOf({ method, headers }: { method?: string; headers: IncomingHttpHeaders }): string {
  const given = headers['x-request-id'];
  if (typeof given === 'string' && REQUEST_ID.test(given)) return given;
  return method === 'POST' ? newJobId() : randomUUID();
}

export const isNamedByCaller = (request: FastifyRequest): boolean => request.headers['x-request-id'] === request.id;
