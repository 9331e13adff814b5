import pg from 'pg';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { missingMembers, PreparedQuery } from '../../src/ledger/driver/prepared-query.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const TEXT = `SELECT n, 'row ' || n AS word FROM generate_series(1, $1::int4) n WHERE n <> ALL ($2::int4[])`;
const ASKED = { name: 'test_rows', text: TEXT, values: [3, '{2}'] };
const ROWS = [
  { n: 1, word: 'row 1' },
  { n: 3, word: 'row 3' },
];

type Messages = { parse(): void; bind(): void; describe(): void; execute(): void; sync(): void };
const MESSAGES = ['parse', 'bind', 'describe', 'execute', 'sync'] as const;

async function connected<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  return work(client).finally(() => client.end());
}

const send = (client: pg.Client): Promise<pg.QueryResult> =>
  new Promise((resolve, reject) => {
    const callback = (error: Error | null, result: pg.QueryResult) => (error ? reject(error) : resolve(result));
    client.query(new PreparedQuery({ ...ASKED, callback }) as unknown as pg.Query);
  });

describe('the private members of pg that a prepared query uses', () => {
  test('are all there in the installed version', () => {
    expect(missingMembers(pg)).toEqual([]);
  });

  test('are named one by one when a version lacks them', () => {
    class Query {
      handleRowDescription() {}
    }
    class Connection {
      bind() {}
    }
    expect(missingMembers({ Query, Connection })).toEqual([
      'Query.prepare',
      'Query._result.addFields',
      'Connection.execute',
      'Connection.sync',
    ]);
    expect(missingMembers({ Query: undefined, Connection: undefined })).toHaveLength(6);
  });

  test('still work: `prepare` sends the messages, and a repeat sends only three', async () => {
    await connected(async (client) => {
      const { connection } = client as unknown as { connection: Messages };
      const sent: string[] = [];
      for (const name of MESSAGES) {
        const original = connection[name];
        vi.spyOn(connection, name).mockImplementation((...params) => {
          sent.push(name);
          original.apply(connection, params);
        });
      }
      await send(client);
      expect(sent.splice(0)).toEqual(['parse', 'bind', 'describe', 'execute', 'sync']);
      await send(client);
      expect(sent).toEqual(['bind', 'execute', 'sync']);
    });
  });

  test('still work: `_result.addFields` and `_accumulateRows` give a repeat the rows and fields of the public way', async () => {
    await connected(async (client) => {
      await send(client);
      const [repeated, plain] = [await send(client), await client.query(ASKED)];
      expect(repeated.rows).toEqual(ROWS);
      expect(repeated.rows).toEqual(plain.rows);
      expect(repeated.fields).toEqual(plain.fields);
      expect(repeated.rowCount).toBe(plain.rowCount);
    });
  });

  test('still work: `callback` receives an error, and the connection goes on', async () => {
    await connected(async (client) => {
      await send(client);
      const failed = new Promise<unknown>((callback) => {
        client.query(new PreparedQuery({ ...ASKED, values: ['x', '{}'], callback }) as unknown as pg.Query);
      });
      expect(await failed).toMatchObject({ code: '22P02' });
      expect((await send(client)).rows).toEqual(ROWS);
    });
  });
});

describe('with a version of pg that lacks one of them', () => {
  afterEach(() => {
    vi.doUnmock('pg');
    vi.resetModules();
  });

  test('statements take the public way, and one warning says so', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    class Query {}
    vi.resetModules();
    vi.doMock('pg', () => ({ default: Object.create(pg, { Query: { value: Query } }) }));
    const { Pipeline } = await import('../../src/ledger/driver/pipeline.ts');
    const pipeline = new Pipeline({ connectionString: ledger.db.url }, {});
    for (let time = 0; time < 3; time++) expect((await pipeline.query(ASKED)).rows).toEqual(ROWS);
    await pipeline.close();
    const warnings = warn.mock.calls.map(([message]) => String(message)).filter((message) => message.includes('pg lacks'));
    expect(warnings).toEqual([
      'This version of pg lacks Query.prepare, Query.handleRowDescription, Query._result.addFields. Millrace works, but each statement costs more.',
    ]);
    warn.mockRestore();
  });
});
