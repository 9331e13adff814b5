import { fingerprint as hash } from './canonical-json.ts';
import type { Envelope } from './envelope.ts';
import type { JobLimit } from './limit.ts';
import { decodePayload, type Payload } from './payload.ts';
import { formatTimestamp } from './timestamp.ts';
import { nextTurn } from './turns.ts';
import type { JobUnique } from './unique.ts';

/** Work with a larger payload takes several turns of the event loop. */
export const LARGE_PAYLOAD = 131_072;

/** The members of a submission that identify a repeat. */
export type Repeatable = {
  readonly payload: Payload;
  readonly idempotencyKey: string | null;
  readonly scheduledAt: Date | null;
  readonly envelope: Envelope | null;
  readonly limit: JobLimit | null;
  readonly unique: JobUnique | null;
};

export const fingerprintOf = (requested: Repeatable): string => hashed(requested, comparable(requested.payload));

/** The same for a large payload, in several turns of the event loop. */
export async function largeFingerprintOf(requested: Repeatable): Promise<string> {
  await nextTurn();
  const payload = comparable(requested.payload);
  await nextTurn();
  return hashed(requested, payload);
}

/**
 * Identifies a repeat by what was requested. Resolved values and the trace are left out, so that a changed default or a new trace
 * does not turn a repeat into a different request.
 */
function hashed(requested: Repeatable, payload: unknown): string {
  const { idempotencyKey: _, payload: __, scheduledAt, envelope, limit, unique, ...rest } = requested;
  return hash({
    ...rest,
    ...(envelope?.category == null ? {} : { category: envelope.category }),
    ...(limit === null ? {} : { limit }),
    ...(unique === null ? {} : { unique }),
    scheduledAt: scheduledAt === null ? null : formatTimestamp(scheduledAt),
    payload,
  });
}

const comparable = (payload: Payload): unknown =>
  payload.kind === 'json' ? decodePayload(payload) : { $bytes: Buffer.from(payload.bytes).toString('base64') };
