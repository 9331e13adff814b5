import pg from 'pg';
import { afterEach, expect, it } from 'vitest';
import { Catalogue } from '../../src/engine/catalogue.ts';
import { EventHub } from '../../src/engine/events.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();
const own = pg.Client.prototype.query;

afterEach(() => {
  pg.Client.prototype.query = own;
});

/** Holds back the response to the next read of the queues. */
function holdNextRead(): { read: Promise<void>; release(): void } {
  const [read, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    if ((args[0] as { name?: string }).name !== 'millrace_read_queues') return Reflect.apply(own, this, args);
    pg.Client.prototype.query = own;
    // A pool passes a callback as the last argument.
    const answered = args.pop() as (...answer: unknown[]) => void;
    const later = async (...answer: unknown[]) => {
      read.resolve();
      await held.promise;
      answered(...answer);
    };
    return Reflect.apply(own, this, [...args, later]);
  } as typeof own;
  return { read: read.promise, release: held.resolve };
}

it('shows a change once it was read, although an older read ends later', async () => {
  const catalogue = new Catalogue({ database: ledger.db, events: new EventHub(), onChange: () => {} });
  const slow = holdNextRead();
  const older = catalogue.refresh();
  await slow.read;
  await ledger.db.maintenance.query(`UPDATE millrace.queues SET depth_cap = 5 WHERE name = 'q:critical'`);
  await catalogue.refresh();
  expect(catalogue.intakeOf('q:critical').depthCap).toBe(5);
  slow.release();
  await older;
  expect(catalogue.intakeOf('q:critical').depthCap).toBe(5);
});
