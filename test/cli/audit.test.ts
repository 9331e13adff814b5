import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { auditAll } from '../ledger/audit-all.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Org = { id: string; slug: string };
type Listed = { rows: { id: number; event: string; actorType: string; actorId: string; details: Record<string, unknown> }[] };

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'millrace-audit-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** An org with a chain of three rows, which the commands of an operator made. */
async function newChain(slug: string): Promise<Org> {
  const org = await ask<Org>(['orgs', 'create', slug], here());
  const key = await ask<{ id: string }>(['keys', 'create', '--org', slug, '--name', 'constructor'], here());
  await ask(['keys', 'revoke', key.id], here());
  await auditAll(ledger.db);
  return org;
}

it('what operators do on the command line is in the trail, and a superuser who changes it is found', async () => {
  const { id: orgId } = await newChain('acme');
  const { rows } = await ask<Listed>(['audit', 'list', '--org', 'acme'], here());
  expect(rows.map(({ event }) => event)).toEqual(['key.revoked', 'key.created', 'org.created']);
  expect(rows[1]).toMatchObject({ actorType: 'user', actorId: 'operator', details: { name: 'constructor' } });
  expect((await run(['audit', 'list', '--org', orgId, '--event', 'key.created'], here())).stdout).toContain('user:operator');
  const good = await run(['audit', 'verify', '--org', 'acme'], here());
  expect(good).toMatchObject({ code: 0, stdout: expect.stringContaining('intact: 3 rows') });
  await ledger.db.api.query(
    `UPDATE millrace.audit_rows SET details = replace(details::text, 'constructor', 'constructos')::json WHERE org_id = $1`,
    [orgId],
  );
  const bad = await run(['audit', 'verify'], here());
  expect(bad.code).toBe(1);
  expect(bad.stdout).toContain(`Row ${rows[1]?.id}, position 2`);
  await ledger.db.api.query(
    `UPDATE millrace.audit_rows SET details = replace(details::text, 'constructos', 'constructor')::json WHERE org_id = $1`,
    [orgId],
  );
  expect((await run(['audit', 'verify', '--json'], here())).code).toBe(0);
});

it('an export is checked without a database: one byte, a removed last line and two swapped lines are found', async () => {
  await newChain('beta');
  const file = join(folder(), 'audit.ndjson');
  expect((await run(['audit', 'export', '--org', 'beta', file], here())).code).toBe(0);
  const again = await run(['audit', 'export', '--org', 'beta', file], here());
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('exists') });
  const printed = await run(['audit', 'export', '--org', 'beta'], here());
  const text = readFileSync(file, 'utf8');
  expect(printed.stdout).toBe(text);
  const lines = text.trimEnd().split('\n');
  expect(lines.length).toBe(3);
  const verify = async (changed: readonly string[]) => {
    const other = join(folder(), 'changed.ndjson');
    writeFileSync(other, changed.map((line) => `${line}\n`).join(''));
    return run(['audit', 'verify', other], { database: 'postgres://nowhere.invalid/none' });
  };
  const [first = '', second = '', third = ''] = lines;
  expect(await verify(lines)).toMatchObject({ code: 0, stdout: expect.stringContaining('intact: 3 rows') });
  expect(await verify([first, second.replace('constructor', 'constructos'), third])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('Line 2'),
  });
  expect(await verify([first, second])).toMatchObject({ code: 1, stdout: expect.stringContaining('missing at the end') });
  expect(await verify([first, third, second])).toMatchObject({ code: 1, stdout: expect.stringContaining('Line 2') });
  expect(await run(['audit', 'verify', join(folder(), 'none')])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no file'),
  });
  expect((await run(['audit', 'verify', '--org', 'beta', file], here())).code).toBe(2);
});
