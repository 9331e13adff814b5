/** Compares the responses that callers got with the rows of the ledger. */
import { setTimeout as delay } from 'node:timers/promises';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants, type Violation } from '../src/ledger/upkeep/invariants.ts';

export type Judgement = {
  acknowledged: number;
  /** Acknowledged jobs that are not there. */
  lost: number;
  /** Jobs in addition to the first one of a key, in responses or in the ledger. */
  duplicated: number;
  /** Jobs that did not end well. */
  unfinished: number;
  violations: readonly Violation[];
};

type Row = { id: string; key: string; state: string };

const DRAIN_MS = 120_000;
const OPEN_JOBS = `SELECT count(*)::int4 AS count FROM millrace.jobs
  WHERE state NOT IN ('completed', 'failed', 'dead_letter', 'cancelled')`;
const ALL_JOBS = 'SELECT id, idempotency_key AS key, state FROM millrace.jobs';

/** Waits until every job has ended, or for two minutes. */
export async function judge(url: string, acknowledged: ReadonlyMap<string, ReadonlySet<string>>): Promise<Judgement> {
  const database = openDatabase({ url });
  try {
    const deadlineMs = performance.now() + DRAIN_MS;
    while (performance.now() < deadlineMs) {
      const { rows } = await database.maintenance.query<{ count: number }>(OPEN_JOBS);
      if (rows[0]?.count === 0) break;
      await delay(50);
    }
    const { rows } = await database.maintenance.query<Row>(ALL_JOBS);
    const there = new Set(rows.map((row) => row.id));
    const ids = [...acknowledged.values()].flatMap((each) => [...each]);
    return {
      acknowledged: acknowledged.size,
      lost: ids.filter((id) => !there.has(id)).length,
      duplicated: ids.length - acknowledged.size + (rows.length - new Set(rows.map((row) => row.key)).size),
      unfinished: rows.filter((row) => row.state !== 'completed').length,
      violations: await checkInvariants(database.maintenance),
    };
  } finally {
    await database.close();
  }
}
