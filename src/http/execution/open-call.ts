import type { FastifyRequest } from 'fastify';
import { BOOTSTRAP_TOKEN, IDEMPOTENCY_KEY } from './schemas/client.ts';

/** What the headers of a call that creates something say of it. */
export function openCallOf({ headers }: Pick<FastifyRequest, 'headers'>): {
  idempotencyKey?: string;
  bootstrapToken?: string;
} {
  const idempotencyKey = textOf(headers[IDEMPOTENCY_KEY]);
  const bootstrapToken = textOf(headers[BOOTSTRAP_TOKEN]);
  return {
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(bootstrapToken === undefined ? {} : { bootstrapToken }),
  };
}

/** An empty header says nothing. */
const textOf = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;
