/** docs/guides/sql.md: its statements run, and its tables list every parameter and every SQLSTATE of the function. */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { ROOT } from './blocks.ts';

const PAGE = readFileSync(new URL('docs/guides/sql.md', ROOT), 'utf8');
const MIGRATION = readFileSync(new URL('src/ledger/migrations/0023_submit_function.sql', ROOT), 'utf8');
const ledger = useLedger();
let client: pg.Client;

beforeAll(async () => {
  client = new pg.Client({ connectionString: ledger.db.url });
  await client.connect();
  return () => client.end();
});

/** The cells of the rows of a section's table. */
function tableOf(section: string): string[][] {
  const [, text = ''] = PAGE.split(`## ${section}\n`);
  const rows = (text.split('\n## ')[0] ?? '').split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => row.split('|').map((cell) => cell.trim().replaceAll('`', '')));
}

test('the statements of the page run from top to bottom', async () => {
  const blocks = [...PAGE.matchAll(/^```sql\n([\s\S]*?)^```$/gm)].map(([, code]) => code as string);
  expect(blocks.length).toBeGreaterThanOrEqual(6);
  onTestFinished(async () => void (await client.query('RESET ROLE; DROP OWNED BY shop; DROP ROLE shop')));
  for (const block of blocks) await client.query(block);
  const { rows } = await client.query(`SELECT job_type, count(*)::int4 AS jobs FROM millrace.jobs GROUP BY job_type ORDER BY job_type`);
  expect(rows).toEqual([
    { job_type: 'email', jobs: 2 },
    { job_type: 'ship', jobs: 4 },
  ]);
  await client.query('SET ROLE shop');
  await expect(client.query(`SELECT millrace.submit('email', '{}')`)).rejects.toMatchObject({ code: '42501' });
  expect((await client.query(`SELECT public.submit_for_shop('email', '{}') AS id`)).rows).toEqual([{ id: expect.any(String) }]);
});

test('the table of parameters lists those of the function, with their types, in order', async () => {
  const { rows } = await client.query(`SELECT p.name, format_type(t.type, NULL) AS type FROM pg_proc f
    CROSS JOIN LATERAL unnest(f.proargnames, f.proargtypes::oid[]) AS p(name, t) CROSS JOIN LATERAL (SELECT p.t AS type) t
    WHERE f.oid = 'millrace.submit'::regproc`);
  const shown = tableOf('Parameters').map(([, name, type]) => ({ name, type }));
  expect(shown).toEqual(rows.map(({ name, type }) => ({ name, type: type === 'timestamp with time zone' ? 'timestamptz' : type })));
});

test('the table of errors lists every SQLSTATE that the function raises', () => {
  const raised = [...MIGRATION.matchAll(/'(MR\d{3})'/g)].map(([, state]) => state);
  const shown = tableOf('Errors').map(([, state]) => state);
  expect(raised.length).toBeGreaterThan(2);
  expect(shown.filter((state) => state?.startsWith('MR'))).toEqual(raised);
});
