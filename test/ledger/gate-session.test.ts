import { expect, test } from 'vitest';
import { GateSession } from '../../src/ledger/downloads/gate-session.ts';
import { useLedger } from './fixture.ts';
import { opened, patientUrl } from './patient.ts';

const ledger = useLedger();
/** For one statement, as its client counts. */
const LIMIT_MS = 6_500;

test('statements of several hosts take turns, and the time of each begins with its turn', async () => {
  const url = patientUrl(ledger.db.url, { query_timeout: LIMIT_MS });
  const session = await opened(() => GateSession.open(url));
  try {
    // Together they take longer than one statement may, and each so much less that a busy machine makes no difference.
    const numbers = Array.from({ length: 14 }, (_, n) => n);
    const all = await Promise.all(numbers.map((n) => session.query({ text: `SELECT ${n} AS n, pg_sleep(0.5)` })));
    expect(all.map(({ rows }) => rows[0].n)).toEqual(numbers);
    expect(session.isLost).toBe(false);
    const failed = session.query({ text: 'SELECT 1 / 0' });
    const next = session.query({ text: 'SELECT 5 AS n' });
    await expect(failed).rejects.toThrow('division by zero');
    expect((await next).rows).toEqual([{ n: 5 }]);
  } finally {
    await session.close();
  }
  await expect(session.query({ text: 'SELECT 1' })).rejects.toThrow('the session for downloads has ended');
});
