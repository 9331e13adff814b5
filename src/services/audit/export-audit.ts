import { exportLineOf } from '../../core/governance/audit-row.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { chainOrgs, findChain, rowsOf } from './walk-audit.ts';

/** The rows of one chain, or of all chains one after another, as lines of JSON, oldest first. Reads only as fast as the lines are taken. */
export async function* exportAudit(database: Database, { orgId }: { orgId: string | null }): AsyncGenerator<string> {
  for await (const org of chainOrgs(database, orgId)) {
    const chain = await findChain(database, org);
    if (chain === null) continue;
    let previous = chain.anchorHash;
    for await (const page of rowsOf(database, chain)) {
      let lines = '';
      for (const row of page) {
        lines += exportLineOf(row, { ...chain, previous });
        previous = row.hash;
      }
      yield lines;
    }
  }
}
