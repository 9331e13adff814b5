import { isUuid } from '../../core/ids.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import type { Seal } from '../driver/seal.ts';

/** The end of a page of webhooks or deliveries: when the last one was created, in microseconds, and its id. */
export type WebhookPosition = { createdUs: number; id: string };

type WebhookScope = CursorScope & { readonly list: 'WEBHOOKS' | 'DELIVERIES' };

/** A time in microseconds, as PostgreSQL stores it. A Date would lose precision. */
export const microseconds = (time: string): string => `(extract(epoch FROM ${time}) * 1000000)::int8`;

/** The time of a parameter in microseconds, or infinity if the parameter is null. */
export const momentOf = (us: string): string => `coalesce(timestamptz 'epoch' + ${us}::int8 * interval '1 microsecond', 'infinity')`;

export const LAST_ID = "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid";

export function writeWebhookCursor(seal: Seal, scope: WebhookScope, { createdUs, id }: WebhookPosition): string {
  return writePageCursor(seal, scope, [createdUs, id]);
}

export function readWebhookCursor(seal: Seal, scope: WebhookScope, cursor: string): WebhookPosition {
  const [createdUs, id] = readPageCursor(seal, scope, cursor);
  if (!Number.isSafeInteger(createdUs) || !isUuid(id)) throw invalidCursor();
  return { createdUs: createdUs as number, id };
}
