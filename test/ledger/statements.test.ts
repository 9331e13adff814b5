import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { plainText } from '../../src/ledger/driver/user-client.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const LEDGER = new URL('../../src/ledger/', import.meta.url);

const files = (): string[] => readdirSync(LEDGER, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

/** One after the other: of concurrent imports, the test runner may evaluate a module twice. */
async function importLedger(): Promise<void> {
  for (const file of files()) await import(new URL(file, LEDGER).href);
}

/** The names of statements that stand in the sources as they are, whether or not somebody imports the file. */
const namesInSources = (): string[] =>
  files().flatMap((file) => {
    const text = readFileSync(new URL(file, LEDGER), 'utf8');
    return Array.from(text.matchAll(/\b(?:statement|namedStatement|flushVariants)\(\s*'(\w+)'/g), ([, name]) => `millrace_${name}`);
  });

test('every statement of the ledger can be prepared on a migrated database', async () => {
  await importLedger();
  const statements = allStatements();
  const known = new Set(statements.map(({ name }) => name));
  expect(namesInSources().length).toBeGreaterThan(150);
  expect(namesInSources().filter((name) => !known.has(name))).toEqual([]);
  const client = await ledger.db.maintenance.connect();
  const refused: string[] = [];
  for (const { name, text } of statements) {
    await client.query(`PREPARE "${name}" AS ${text}`).catch((error: Error) => refused.push(`${name}: ${error.message}`));
  }
  const { rows } = await client.query('SELECT count(*)::int4 AS prepared FROM pg_prepared_statements');
  client.release(true);
  expect(refused).toEqual([]);
  expect(rows[0].prepared).toBeGreaterThanOrEqual(known.size);
});

test('as other clients than pg get it, every statement can be prepared, and its parameters are text or plain values', async () => {
  await importLedger();
  const client = await ledger.db.maintenance.connect();
  const refused: string[] = [];
  for (const { name, text } of allStatements()) {
    await client.query(`PREPARE "${name}" AS ${plainText(text).text}`).catch((error: Error) => refused.push(`${name}: ${error.message}`));
  }
  const { rows } = await client.query(`SELECT name, p.type FROM pg_prepared_statements
    CROSS JOIN LATERAL unnest(parameter_types::text[]) AS p(type) WHERE p.type IN ('json', 'jsonb', 'bytea') OR p.type LIKE '%[]'`);
  client.release(true);
  expect(refused).toEqual([]);
  expect(rows).toEqual([]);
});

test('only submissions, which write many jobs to a row, write tokens by SQL of their own', () => {
  const writers = files().filter((file) => {
    const text = readFileSync(new URL(file, LEDGER), 'utf8');
    return /INSERT INTO millrace\.(?:ready|timers) |INSERT INTO millrace\.releases \(org_id, seq\) /.test(text);
  });
  expect(writers.filter((file) => !/^jobs\/submit-/.test(file))).toEqual(['tokens.ts']);
});

test('statement names fit into what PostgreSQL keeps of a name', async () => {
  await importLedger();
  expect(allStatements().filter(({ name }) => name.length > 63)).toEqual([]);
});

test('the claim walks the ready jobs in the order of their index', async () => {
  await importLedger();
  await ledger.db.maintenance.query(
    `INSERT INTO millrace.ready (order_key, org_id, priority, queue, job_type, seqs)
     SELECT n, '00000000-0000-4000-8000-000000000000', n % 5, 'q:default', 'type-' || n % 20, ARRAY[n] FROM generate_series(1, 10000) n`,
  );
  await ledger.db.maintenance.query('ANALYZE millrace.ready');
  const ranges = [
    ['q:default', 'q:default'],
    ['type-1', 'type-2'],
    [2, 2],
    [0, 0],
  ];
  const plan = await planOf('millrace_claim_and_start', [1, 64, 1, ...ranges, 64, [0, 1]]);
  expect(plan).toContain('ready_in_claim_order');
  expect(plan).not.toContain('Seq Scan on ready');
});

/** The plan as the workers' connections make it: with their settings, and without a look at the values. */
async function planOf(name: string, values: unknown[]): Promise<string> {
  const text = allStatements().find((made) => made.name === name)?.text ?? '';
  return inTransaction(ledger.db.workers, async (client) => {
    await client.query(`PREPARE planned AS ${text}`);
    const literals = values.map((value) => (Array.isArray(value) ? `'{${value.join(',')}}'` : String(value)));
    const { rows } = await client.query(`EXPLAIN EXECUTE planned (${literals.join(', ')})`);
    await client.query('DEALLOCATE planned');
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  });
}
