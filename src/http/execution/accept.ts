import type { FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Media types a route can answer with beside JSON. */
    offers?: readonly string[];
  }
}

const OFFERED = ['application/json', 'application/problem+json'];

/** Refuses a request that would accept nothing this door can say, before anything is done for it. */
export function checkAccept({ headers: { accept } }: FastifyRequest, offers: readonly string[]): void {
  if (accept === undefined || accept === '*/*' || accept.trim() === '') return;
  const offered = [...OFFERED, ...offers];
  if (rangesOf(accept).some((range) => offered.some((type) => covers(range, type)))) return;
  const message = `This address answers with ${offered.join(', ')}, none of which the Accept header allows.`;
  throw new AppError('INVALID_REQUEST', {
    ...{ message, problem: 'RFA_REQUEST_NOT_ACCEPTABLE' },
    details: [{ field: 'accept', code: 'NOT_ACCEPTABLE', message }],
  });
}

/** The media ranges of an Accept header that are wanted at all: `q=0` says "not this". */
function rangesOf(accept: string): string[] {
  return accept.split(',').flatMap((part) => {
    const [range = '', ...parameters] = part.split(';').map((each) => each.trim().toLowerCase());
    const isRefused = parameters.some((parameter) => /^q=0(?:\.0{0,3})?$/.test(parameter));
    return range === '' || isRefused ? [] : [range];
  });
}

function covers(range: string, type: string): boolean {
  if (range === '*/*' || range === type) return true;
  return range.endsWith('/*') && type.startsWith(range.slice(0, -1));
}
