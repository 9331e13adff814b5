import { projectRollups } from '../../src/ledger/history/rollups.ts';
import { until } from '../until.ts';
import type { TestLedger } from './fixture.ts';

const IS_LEFT = `SELECT EXISTS (SELECT FROM millrace.events WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'rollups')) AS "isLeft"`;

/** Counts every event that is committed now. Transactions of other databases on the server hold the horizon back, too. */
export async function projectAll(ledger: TestLedger): Promise<void> {
  await until('every event is counted', async () => {
    const { isLeft } = (await ledger.db.api.query(IS_LEFT)).rows[0];
    if (isLeft) await projectRollups(ledger.db.maintenance, 1_000);
    return !isLeft;
  });
}
