import { NIL_ORG_ID } from '../../core/governance/audit-action.ts';
import { type Chain, type ChainRow, chainOf, chainRows, nextChainOrg } from '../../ledger/audit/walk-chains.ts';
import type { Database } from '../../ledger/driver/database.ts';

const PAGE = 500;

/** The orgs that have chains, or rows without a chain: one org, or all of them in the order of their ids. */
export async function* chainOrgs(database: Database, orgId: string | null): AsyncGenerator<string> {
  if (orgId !== null) {
    yield orgId;
    return;
  }
  let next: string | null = NIL_ORG_ID;
  while (next !== null) {
    yield next;
    next = await nextChainOrg(database.maintenance, next);
  }
}

/** The chain of an org as it is now. Null: it has none. */
export const findChain = (database: Database, orgId: string): Promise<Chain | null> => chainOf(database.maintenance, orgId);

/** The rows of a chain up to the end that it had, oldest first, in pages. Reads the next page only when it is asked for. */
export async function* rowsOf(database: Database, { orgId, lastId }: Pick<Chain, 'orgId' | 'lastId'>): AsyncGenerator<ChainRow[]> {
  let afterId = Number.MIN_SAFE_INTEGER;
  for (;;) {
    const rows = await chainRows(database.maintenance, orgId, { afterId, lastId, limit: PAGE });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE) return;
    afterId = (rows.at(-1) as ChainRow).id;
  }
}
