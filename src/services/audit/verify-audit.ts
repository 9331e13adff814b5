import { NO_HASH } from '../../core/governance/audit-row.ts';
import { type BadRow, ChainChecker, storedLineOf } from '../../core/governance/verify-chain.ts';
import { type AuditLag, auditLag } from '../../ledger/audit/audit-lag.ts';
import { type Chain, strayRow } from '../../ledger/audit/walk-chains.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { chainOrgs, findChain, rowsOf } from './walk-audit.ts';

export type AuditVerdict = { readonly ok: boolean; readonly rows: number; readonly firstBad: BadRow | null } & AuditLag;

/** Checks the chain of one org, or of all orgs, in bounded memory. Stops at the first row that is wrong. */
export async function verifyAudit(
  database: Database,
  { orgId, signal, onProgress }: { orgId: string | null; signal?: AbortSignal; onProgress?: (rows: number) => void },
): Promise<AuditVerdict> {
  const lag = await auditLag(database.maintenance);
  let rows = 0;
  const count = (checked: number) => {
    signal?.throwIfAborted();
    rows += checked;
    onProgress?.(rows);
  };
  for await (const org of chainOrgs(database, orgId)) {
    const firstBad = await verifyChain(database, org, count);
    if (firstBad !== null) return { ok: false, rows, firstBad, ...lag };
  }
  return { ok: true, rows, firstBad: null, ...lag };
}

async function verifyChain(database: Database, orgId: string, count: (checked: number) => void): Promise<BadRow | null> {
  const chain = await findChain(database, orgId);
  const bad = await verifyRows(database, orgId, { chain, count });
  if (bad === null || chain === null) return bad;
  // Retention may have removed rows meanwhile. Then the chain begins later.
  const now = await findChain(database, orgId);
  return now === null || now.first === chain.first ? bad : verifyChain(database, orgId, count);
}

async function findStray(database: Database, orgId: string): Promise<BadRow | null> {
  const row = await strayRow(database.maintenance, orgId);
  return row === null
    ? null
    : { orgId, auditId: String(row.id), position: row.position, reason: 'the row was added behind the end of the chain' };
}

type Walk = { chain: Chain | null; count: (checked: number) => void };

async function verifyRows(database: Database, orgId: string, { chain, count }: Walk): Promise<BadRow | null> {
  const bounds = chain ?? { first: 1, last: Number.MAX_SAFE_INTEGER, anchorHash: NO_HASH, lastHash: null, lastId: Number.MAX_SAFE_INTEGER };
  const checker = new ChainChecker(orgId, bounds);
  for await (const page of rowsOf(database, { orgId, lastId: bounds.lastId })) {
    if (chain === null)
      return { orgId, auditId: String(page[0]?.id), position: page[0]?.position ?? 1, reason: 'the org has rows but no chain' };
    for (const row of page) {
      if (row.isFiner) return { orgId, auditId: String(row.id), position: row.position, reason: 'a time of the row was changed' };
      const bad = checker.add({ auditId: String(row.id), position: row.position, hash: row.hash }, storedLineOf(row));
      if (bad !== null) return bad;
    }
    count(page.length);
  }
  return chain === null ? null : (checker.end() ?? (await findStray(database, orgId)));
}
