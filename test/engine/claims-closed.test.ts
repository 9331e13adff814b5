import { expect, it } from 'vitest';
import { useBench } from '../library/fixture.ts';

const bench = useBench();

it('a worker whose jobs all fail leaves no row behind for each of its claims', async () => {
  const org = await bench.ledger.newOrg();
  const fails = () => {
    throw new Error('as ever');
  };
  const millrace = await bench.work({ fails }, { org, defaults: { maxAttempts: 1 } });
  for (let n = 0; n < 12; n++) {
    const { jobId } = await millrace.submit({ type: 'fails', payload: {} });
    expect((await millrace.waitFor(jobId)).state).toBe('dead_letter');
  }
  const { rows } = await bench.ledger.db.api.query('SELECT FROM millrace.claims WHERE org_id = $1', [org]);
  // The last claim is closed with the next outcome, and that of an outcome before may be on its way.
  expect(rows.length).toBeLessThan(4);
});
