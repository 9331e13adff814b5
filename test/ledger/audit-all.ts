import type { AuditedJobs } from '../../src/ledger/audit/audit-page.ts';
import { projectAudit } from '../../src/ledger/audit/project-audit.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import { until } from '../until.ts';

const LEFT = `SELECT EXISTS (SELECT FROM millrace.records WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'audit'))
  OR EXISTS (SELECT FROM millrace.audit_actions) AS "isLeft"`;

/** Brings the audit trail up to date; transactions in other databases of the server hold it back, too. */
export async function auditAll(db: Database, jobs: AuditedJobs = 'governed'): Promise<void> {
  await until('the audit trail has everything', async () => {
    const { isLeft } = (await db.api.query(LEFT)).rows[0];
    if (isLeft) await projectAudit(db.maintenance, jobs);
    return !isLeft;
  });
}
