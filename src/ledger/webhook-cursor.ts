import { AppError } from '../core/errors.ts';
import { isUuid } from '../core/ids.ts';

/** Where a page of webhooks or deliveries ended: when the last one came, in microseconds, and its id. */
export type WebhookPosition = { createdUs: number; id: string };

export type WebhookListed = 'WEBHOOKS' | 'DELIVERIES';

const VERSION = 1;

/** The microseconds of a time as PostgreSQL keeps it, which a Date would lose. */
export const microseconds = (time: string): string => `(extract(epoch FROM ${time}) * 1000000)::int8`;

/** The time of a parameter in microseconds; what comes before everything where it is null. */
export const momentOf = (us: string): string =>
  `coalesce(timestamptz 'epoch' + ${us}::int8 * interval '1 microsecond', 'infinity')`;

export const LAST_ID = "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid";

export function writeWebhookCursor(listed: WebhookListed, { createdUs, id }: WebhookPosition): string {
  return Buffer.from(JSON.stringify([VERSION, listed, createdUs, id])).toString('base64url');
}

/** A cursor is good only for the list it was made in. */
export function readWebhookCursor(listed: WebhookListed, cursor: string): WebhookPosition {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const [version, mark, createdUs, id, ...rest] = Array.isArray(value) ? value : [];
    if (version === VERSION && mark === listed && rest.length === 0 && Number.isSafeInteger(createdUs) && isUuid(id))
      return { createdUs, id };
  } catch {
    // Falls through to the one answer for every broken cursor.
  }
  const message = 'cursor must be the next_cursor of a page of the same list';
  throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'cursor', code: 'INVALID_CURSOR', message }] });
}
