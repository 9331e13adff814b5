import type { FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Media types that a route can send in addition to JSON. */
    offers?: readonly string[];
  }
}

const OFFERED = ['application/json', 'application/problem+json'];

/** Refuses a request that accepts none of the media types of the route. */
export function checkAccept({ headers: { accept } }: FastifyRequest, offers: readonly string[]): void {
  if (accept === undefined || accept === '*/*' || accept.trim() === '') return;
  const offered = [...OFFERED, ...offers];
  const ranges = readAccept(accept).filter(({ weight }) => weight > 0);
  if (ranges.some((range) => offered.some((type) => covers(range.type, type)))) return;
  const message = `The Accept header allows none of ${offered.join(', ')}.`;
  throw new AppError('INVALID_REQUEST', {
    message,
    problem: 'RFA_REQUEST_NOT_ACCEPTABLE',
    details: [{ field: 'accept', code: 'NOT_ACCEPTABLE', message }],
  });
}

export type MediaRange = { readonly type: string; readonly weight: number };

/** The media ranges of an Accept header. A weight of 0 (`q=0`) excludes the range. */
export function readAccept(accept: string): MediaRange[] {
  return accept.split(',').map((text) => {
    const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.map((parameter) => /^q=([01](?:\.\d*)?)$/.exec(parameter)?.[1]).find(Boolean);
    return { type, weight: Number(weight ?? 1) };
  });
}

function covers(range: string, type: string): boolean {
  if (range === '*/*' || range === type) return true;
  return range.endsWith('/*') && type.startsWith(range.slice(0, -1));
}
