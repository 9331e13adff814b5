import type { Database } from '../../ledger/driver/database.ts';
import { type CursorScope, readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';

export type PageRequest = { readonly cursor: string | null; readonly limit: number };
export type ListPage<T> = { readonly items: readonly T[]; readonly nextCursor: string | null };

/** A page of a list that is small enough to be read whole. Its items are in the order of their keys. */
export async function pageOf<T, K extends string | number>(
  database: Database,
  { items, keyOf, list, orgId }: { items: readonly T[]; keyOf(item: T): K; list: CursorScope['list']; orgId: string | null },
  { cursor, limit }: PageRequest,
): Promise<ListPage<T>> {
  const seal = await sealOf(database.api);
  const scope: CursorScope = { list, orgId: orgId ?? 'operators', filter: {} };
  const after = cursor === null ? null : (readPageCursor(seal, scope, cursor)[0] as K);
  const rest = after === null ? items : items.filter((item) => keyOf(item) > after);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return { items: page, nextCursor: rest.length > limit && last !== undefined ? writePageCursor(seal, scope, [keyOf(last)]) : null };
}
