/** The same engine on a server that is given: the machine's PostgreSQL 15 where there is one, the oldest we support. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Millrace, PermanentError, TemporaryError } from '../../src/index.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { type ExternalServer, startExternal } from '../postgres/external-server.ts';
import { freePort, makeScratch, type Scratch } from '../postgres/scratch.ts';
import { allEnded } from './fixture.ts';

/** Another process may take the port before the server has it. Then the next one may be free. */
async function startOnFreePort(scratch: Scratch): Promise<ExternalServer> {
  for (let tries = 1; ; tries++) {
    try {
      return await startExternal({ folder: scratch.fresh('given'), port: await freePort() });
    } catch (error) {
      if (tries === 3) throw error;
    }
  }
}

describe('a server that is given', () => {
  let scratch: Scratch;
  let server: ExternalServer;

  beforeAll(async () => {
    scratch = await makeScratch();
    server = await startOnFreePort(scratch);
  });
  afterAll(async () => {
    await server.stop();
    await scratch.remove();
  });

  it('runs every kind of end a job can have, and leaves a sound ledger', async () => {
    const millrace = await Millrace.open({ database: server.url, concurrency: 4 });
    millrace.register({ type: 'add', handler: (_ctx, { a, b }: { a: number; b: number }) => a + b });
    millrace.register({
      type: 'flaky',
      backoff: { initialDelay: '1ms' },
      handler: (ctx) => {
        if (ctx.attempt === 1) throw new TemporaryError('not yet');
        return ctx.attempt;
      },
    });
    millrace.register({
      type: 'broken',
      handler: () => {
        throw new PermanentError('never', { code: 'NEVER' });
      },
    });
    await millrace.start();
    const first = await millrace.submit({ type: 'add', payload: { a: 1, b: 2 }, idempotencyKey: 'once' });
    const again = await millrace.submit({ type: 'add', payload: { a: 1, b: 2 }, idempotencyKey: 'once' });
    const after = await millrace.submit({ type: 'add', payload: { a: 3, b: 4 }, dependsOn: [first.jobId] });
    const flaky = await millrace.submit({ type: 'flaky', payload: {} });
    const broken = await millrace.submit({ type: 'broken', payload: {} });
    const later = await millrace.submit({ type: 'add', payload: { a: 5, b: 6 }, delay: '1h' });
    expect(again).toMatchObject({ status: 'DUPLICATE', existingJobId: first.jobId });
    expect((await millrace.waitFor(after.jobId)).result?.output).toBe(7);
    expect((await millrace.waitFor(flaky.jobId)).result).toMatchObject({ output: 2, attempt: 2 });
    expect(await millrace.waitFor(broken.jobId)).toMatchObject({ state: 'failed', lastFailure: { code: 'NEVER' } });
    expect(await millrace.cancel(later.jobId)).toMatchObject({ status: 'CANCELLED', previousState: 'delayed' });
    const batch = await millrace.submitMany(Array.from({ length: 200 }, (_, i) => ({ type: 'add', payload: { a: i, b: i } })));
    await allEnded(millrace, batch.results);
    expect((await millrace.stats()).states.completed).toBe(203);
    await millrace.close();
    const database = openDatabase({ url: server.url });
    expect(await checkInvariants(database.maintenance)).toEqual([]);
    await database.close();
  });

  it('prepares every statement', async () => {
    const database = openDatabase({ url: server.url });
    const client = await database.workers.connect();
    for (const { name, text } of allStatements()) await client.query(`PREPARE ${name}_check AS ${text}`);
    const { rows } = await client.query('SELECT count(*) AS prepared FROM pg_prepared_statements');
    expect(rows[0]?.prepared).toBeGreaterThan(40);
    client.release();
    await database.close();
  });
});
