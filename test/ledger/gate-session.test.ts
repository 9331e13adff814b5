import { expect, test } from 'vitest';
import { GateSession } from '../../src/ledger/downloads/gate-session.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

test('statements of several hosts take turns, and the time of each begins with its turn', async () => {
  const session = await GateSession.open(ledger.db.url);
  try {
    // Together they take longer than one statement may.
    const all = await Promise.all(Array.from({ length: 4 }, (_, n) => session.query({ text: `SELECT ${n} AS n, pg_sleep(1.2)` })));
    expect(all.map(({ rows }) => rows[0].n)).toEqual([0, 1, 2, 3]);
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
