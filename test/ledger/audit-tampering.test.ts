import { describe, expect, test } from 'vitest';
import { ExportChecker, type ExportVerdict } from '../../src/core/governance/verify-export.ts';
import { recordActions } from '../../src/ledger/audit/record-action.ts';
import { exportAudit } from '../../src/services/audit/export-audit.ts';
import { verifyAudit } from '../../src/services/audit/verify-audit.ts';
import { auditAll } from './audit-all.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

/** A chain of five rows. */
async function newChain(): Promise<string> {
  const orgId = await ledger.newOrg();
  const requester = { actor: 'user:operator', requestId: 'request-1' };
  const actions = [1, 2, 3, 4, 5].map((n) => ({ orgId, event: 'queue.changed', requester, details: { n, queue: 'q:mail' } }));
  await recordActions(ledger.db.api, actions);
  await auditAll(ledger.db);
  return orgId;
}

const change = (text: string, orgId: string): Promise<unknown> => ledger.db.api.query(text, [orgId]);
const firstBadOf = async (orgId: string) => (await verifyAudit(ledger.db, { orgId })).firstBad;

describe('a superuser changes the table', () => {
  test.each([
    ['the event', `event = 'queue.changes'`],
    ['the time, by a millisecond', `at = at + interval '1 ms'`],
    ['the time, by a microsecond', `at = at + interval '1 microsecond'`],
    ['the time of recording', `recorded_at = recorded_at + interval '1 ms'`],
    ['the actor', `actor_id = 'operatos'`],
    ['the type of the actor', `actor_type = 'system'`],
    ['a null to a text', `performed_by = ''`],
    ['the request', `request_id = 'request-2'`],
    ['the correlation', `correlation_id = NULL`],
    ['the project', `project_id = gen_random_uuid()`],
    ['the job', `job_id = gen_random_uuid()`],
    ['the type of the job', `job_type = 'x'`],
    ['the attempt', `attempt = 0`],
    ['one byte of the details', `details = replace(details::text, 'q:mail', 'q:mall')::json`],
    ['white space in the details', `details = (' ' || details::text)::json`],
    ['the hash', `hash = set_byte(hash, 31, (get_byte(hash, 31) + 1) % 256)`],
    ['the position', `position = 30`],
  ])('%s of one row: verify names that row [AB-audit.18]', async (_what, assignment) => {
    const orgId = await newChain();
    expect(await firstBadOf(orgId)).toBeNull();
    const { rows } = (await change(
      `UPDATE millrace.audit_rows SET ${assignment} WHERE org_id = $1 AND position = 3 RETURNING id`,
      orgId,
    )) as {
      rows: { id: number }[];
    };
    expect(await firstBadOf(orgId)).toMatchObject({ orgId, auditId: String(rows[0]?.id) });
  });

  test('a removed row is found, the first and the last one too', async () => {
    for (const [position, found] of [
      [1, { position: 2, reason: expect.stringContaining('position 1 is missing') }],
      [3, { position: 4, reason: expect.stringContaining('position 3 is missing') }],
      [5, { auditId: null, position: 5, reason: expect.stringContaining('missing at the end') }],
    ] as const) {
      const orgId = await newChain();
      await change(`DELETE FROM millrace.audit_rows WHERE org_id = $1 AND position = ${position}`, orgId);
      expect(await firstBadOf(orgId)).toMatchObject({ orgId, ...found });
    }
  });

  test('two swapped rows are found, however they were swapped', async () => {
    const swapped = await newChain();
    await change(
      `UPDATE millrace.audit_rows r SET details = o.details, hash = o.hash FROM millrace.audit_rows o
       WHERE r.org_id = $1 AND o.org_id = $1 AND (r.position, o.position) IN ((2, 3), (3, 2))`,
      swapped,
    );
    expect(await firstBadOf(swapped)).toMatchObject({ position: 2 });
    const renumbered = await newChain();
    await change(`UPDATE millrace.audit_rows SET position = 5 - position WHERE org_id = $1 AND position IN (2, 3)`, renumbered);
    expect(await firstBadOf(renumbered)).toMatchObject({ position: 3 });
  });

  test.each(['id - 1000000', 'id + 1000000'])('a row that was added with the id %s is found', async (id) => {
    const orgId = await newChain();
    await change(
      `INSERT INTO millrace.audit_rows SELECT ${id}, org_id, position, recorded_at, at, 'queue.paused', project_id, actor_type, actor_id, performed_by,
         request_id, correlation_id, job_id, job_type, attempt, details, hash FROM millrace.audit_rows WHERE org_id = $1 AND position = 5`,
      orgId,
    );
    expect(await firstBadOf(orgId)).not.toBeNull();
  });

  test('a chain without its end, and an end without its rows, are found by a check of all chains', async () => {
    const [without, emptied] = [await newChain(), await newChain()];
    expect(await verifyAudit(ledger.db, { orgId: emptied })).toMatchObject({ ok: true, rows: 5 });
    await change('DELETE FROM millrace.audit_chains WHERE org_id = $1', without);
    expect(await firstBadOf(without)).toMatchObject({ reason: 'the org has rows but no chain' });
    expect(await verifyAudit(ledger.db, { orgId: null })).toMatchObject({ ok: false });
    await change('DELETE FROM millrace.audit_rows WHERE org_id = $1', without);
    await change('DELETE FROM millrace.audit_rows WHERE org_id = $1', emptied);
    expect(await firstBadOf(emptied)).toMatchObject({ auditId: null, position: 1 });
  });

  test('the chain of one org does not concern another', async () => {
    const [changed, untouched] = [await newChain(), await newChain()];
    await change(`UPDATE millrace.audit_rows SET event = 'x.y' WHERE org_id = $1 AND position = 1`, changed);
    expect(await firstBadOf(untouched)).toBeNull();
    expect(await firstBadOf(changed)).toMatchObject({ orgId: changed, position: 1 });
  });
});

describe('an export is changed', () => {
  async function linesOf(orgId: string): Promise<string[]> {
    let text = '';
    for await (const lines of exportAudit(ledger.db, { orgId })) text += lines;
    return text.split('\n').slice(0, -1);
  }

  function check(lines: readonly string[]): ExportVerdict {
    const checker = new ExportChecker();
    for (const line of lines) {
      const verdict = checker.add(line);
      if (verdict !== null) return verdict;
    }
    return checker.end();
  }

  test('every change of one character is found in its line', async () => {
    const lines = await linesOf(await newChain());
    expect(check(lines)).toEqual({ kind: 'ok', rows: 5 });
    const line = lines[2] as string;
    for (let at = 0; at < line.length; at++) {
      const changed = `${line.slice(0, at)}${line[at] === '7' ? '8' : '7'}${line.slice(at + 1)}`;
      expect({ at, ...check(lines.with(2, changed)) }).toMatchObject({ at, kind: 'bad', line: 3 });
    }
  });

  test('removed, moved, added and repeated lines are found, and the end too', async () => {
    const lines = await linesOf(await newChain());
    const [first, second, third, fourth, fifth] = lines as [string, string, string, string, string];
    expect(check([second, third, fourth, fifth])).toMatchObject({ kind: 'bad', line: 1 });
    expect(check([first, third, fourth, fifth])).toMatchObject({ kind: 'bad', line: 2 });
    expect(check([first, second, third, fourth])).toMatchObject({ kind: 'bad', firstBad: { position: 5, auditId: null } });
    expect(check([first, third, second, fourth, fifth])).toMatchObject({ kind: 'bad', line: 2 });
    expect(check([first, second, second, third, fourth, fifth])).toMatchObject({ kind: 'bad', line: 3 });
    expect(check([first, '{}', second])).toMatchObject({ kind: 'bad', line: 2 });
  });

  test('chains of two orgs follow each other; mixed ones are refused', async () => {
    const [a, b] = [await linesOf(await newChain()), await linesOf(await newChain())];
    expect(check([...a, ...b])).toEqual({ kind: 'ok', rows: 10 });
    expect(check([...a.slice(0, 4), ...b, ...a.slice(4)])).toMatchObject({ kind: 'bad', line: 5 });
  });
});
