import { NIL_ORG_ID } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { findOrgByName } from '../access/list-orgs.ts';

/** The org whose rows are asked for, by its id or its slug. An id may be the nil uuid, or that of an org that was deleted: its rows are kept. */
export async function auditOrg(database: Pick<Database, 'api'>, name: string): Promise<string> {
  return isUuid(name) || name === NIL_ORG_ID ? name.toLowerCase() : (await findOrgByName(database, name)).id;
}
