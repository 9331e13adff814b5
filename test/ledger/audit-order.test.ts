import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { NIL_ORG_ID } from '../../src/core/governance/audit-action.ts';
import { projectAudit } from '../../src/ledger/audit/project-audit.ts';
import { pruneAudit } from '../../src/ledger/audit/prune-audit.ts';
import { recordActions } from '../../src/ledger/audit/record-action.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { exportAudit } from '../../src/services/audit/export-audit.ts';
import { verifyAudit } from '../../src/services/audit/verify-audit.ts';
import { until } from '../until.ts';
import { auditAll } from './audit-all.ts';
import { type SubmitOverrides, useLedger } from './fixture.ts';

const ledger = useLedger();
const DAY = 86_400_000;

type Row = Record<string, unknown> & { event: string; details: Record<string, unknown> };

const rowsOf = async (orgId: string): Promise<Row[]> =>
  (await ledger.db.api.query(`SELECT * FROM millrace.audit_rows WHERE org_id = $1 ORDER BY position`, [orgId])).rows;
const eventsOf = async (orgId: string): Promise<string[]> => (await rowsOf(orgId)).map(({ event }) => event);

/** A job with one of the five categories. */
const governed = (orgId: string, category = 'notification'): SubmitOverrides => ({
  orgId,
  actor: 'api_key:4kJ',
  job: { envelope: { requestId: 'request-1', category, projectId: null, traceparent: null } },
});

const act = (orgId: string, event: string, details?: Record<string, unknown>) => ({
  orgId,
  event,
  requester: { actor: 'user:operator', requestId: 'request-2' },
  ...(details === undefined ? {} : { details }),
});

describe('the order and the number of rows', () => {
  test('an event that commits after later ones is not skipped, whichever commits first', async () => {
    const orgId = await ledger.newOrg();
    await recordActions(ledger.db.api, [act(orgId, 'queue.changed')]);
    const slow = await ledger.db.workers.connect();
    try {
      await slow.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
      await recordActions(slow, [act(orgId, 'queue.paused')]);
      await ledger.submitOneOn(slow, governed(orgId));
      await recordActions(ledger.db.api, [act(orgId, 'queue.resumed')]);
      await ledger.submitOne(governed(orgId));
      await until('what came before is in the trail', async () => {
        await projectAudit(ledger.db.maintenance, 'governed');
        return (await eventsOf(orgId)).length > 0;
      });
      // The quick ones began after the slow one and must wait for it.
      expect(await eventsOf(orgId)).toEqual(['queue.changed']);
      await slow.query('COMMIT');
    } finally {
      slow.release(true);
    }
    await auditAll(ledger.db);
    expect(await eventsOf(orgId)).toEqual(['queue.changed', 'queue.paused', 'job.enqueued', 'queue.resumed', 'job.enqueued']);
  });

  test('an action that is rolled back leaves nothing, and a consumed one leaves its table', async () => {
    const orgId = await ledger.newOrg();
    await inTransaction(ledger.db.api, async (client) => {
      await recordActions(client, [act(orgId, 'queue.paused')]);
      throw new Error('no');
    }).catch(() => {});
    await recordActions(ledger.db.api, [act(orgId, 'queue.resumed')]);
    await auditAll(ledger.db);
    expect(await eventsOf(orgId)).toEqual(['queue.resumed']);
    expect((await ledger.db.api.query('SELECT FROM millrace.audit_actions')).rowCount).toBe(0);
  });

  test('many writers at the same time, with pages of any size, make one unbroken chain with each event once', async () => {
    const orgId = await ledger.newOrg();
    const total = 60;
    let isDone = false;
    const write = async () => {
      while (!isDone)
        await projectAudit(ledger.db.maintenance, 'governed', {
          records: 1 + Math.floor(Math.random() * 5),
          events: 1 + Math.floor(Math.random() * 4),
          actions: 1 + Math.floor(Math.random() * 3),
        });
    };
    // The hold keeps others away only for speed: these writers ignore it, as processes whose hold ended do.
    const unhold = async () => {
      while (!isDone) {
        await ledger.db.api.query(`UPDATE millrace.projections SET holder = NULL WHERE name = 'audit'`);
      }
    };
    const writers = [write(), write(), write(), unhold()];
    for (let n = 0; n < total; n++) {
      await inTransaction(ledger.db.api, async (client) => {
        await recordActions(client, [act(orgId, 'queue.changed', { n }), act(orgId, 'queue.changed', { n: n + 0.5 })]);
        await ledger.submitOneOn(client, governed(orgId));
      });
    }
    await until('every event has its row', async () => (await rowsOf(orgId)).length, total * 3);
    isDone = true;
    await Promise.all(writers);
    const rows = await rowsOf(orgId);
    expect(rows.map(({ position }) => position)).toEqual(rows.map((_, index) => index + 1));
    expect(new Set(rows.flatMap(({ job_id }) => (job_id === null ? [] : [job_id]))).size).toBe(total);
    const order = rows.flatMap(({ details }) => (details.n === undefined ? [] : [details.n]));
    expect(order).toEqual(Array.from({ length: total }, (_, n) => [n, n + 0.5]).flat());
    expect(await verifyAudit(ledger.db, { orgId })).toMatchObject({ ok: true, rows: total * 3 });
  });

  test('what happened inside a transaction larger than a page is neither lost nor doubled', async () => {
    const orgId = await ledger.newOrg();
    await inTransaction(ledger.db.api, async (client) => {
      for (let n = 0; n < 7; n++) await ledger.submitOneOn(client, governed(orgId));
      await recordActions(
        client,
        Array.from({ length: 7 }, (_, n) => act(orgId, 'queue.changed', { n })),
      );
    });
    await until(
      'every event has its row',
      async () => {
        await projectAudit(ledger.db.maintenance, 'governed', { records: 3, events: 2, actions: 2 });
        return (await rowsOf(orgId)).length;
      },
      14,
    );
    expect(await eventsOf(orgId)).toEqual([...Array(7).fill('queue.changed'), ...Array(7).fill('job.enqueued')]);
  });

  test('a poison item is set aside and blocks nothing', async () => {
    const orgId = await ledger.newOrg();
    await auditAll(ledger.db);
    await ledger.db.api.query(
      `ALTER TABLE millrace.audit_rows ADD CONSTRAINT poison CHECK (details::text NOT LIKE '%poison%' AND job_type IS DISTINCT FROM 'poison')`,
    );
    try {
      for (let n = 0; n < 5; n++) await ledger.submitOne(governed(orgId));
      await ledger.submitOne({ ...governed(orgId), type: 'poison' });
      await recordActions(ledger.db.api, [
        act(orgId, 'queue.paused'),
        act(orgId, 'queue.changed', { poison: 1 }),
        act(orgId, 'queue.resumed'),
      ]);
      await ledger.submitOne(governed(orgId));
      await auditAll(ledger.db);
    } finally {
      await ledger.db.api.query('ALTER TABLE millrace.audit_rows DROP CONSTRAINT poison');
    }
    expect(await eventsOf(orgId)).toEqual([...Array(5).fill('job.enqueued'), 'queue.paused', 'queue.resumed', 'job.enqueued']);
    const { rows } = await ledger.db.api.query(`SELECT error FROM millrace.set_aside WHERE projection = 'audit' AND org_id = $1`, [orgId]);
    expect(rows.length).toBe(2);
    expect(rows.some(({ error }) => String(error).includes('queue.changed'))).toBe(true);
    expect(await verifyAudit(ledger.db, { orgId })).toMatchObject({ ok: true, setAside: 2 });
  });

  test('text of any kind is kept and hashed as it is', async () => {
    const orgId = await ledger.newOrg();
    const details = {
      ['__proto__' as string]: 'constructor',
      text: 'a\u0000b \u2028 \ud800 "…" \\',
      deep: JSON.parse('['.repeat(50) + ']'.repeat(50)),
    };
    await recordActions(ledger.db.api, [
      { ...act(orgId, 'constructor', details), requester: { actor: 'api_key:__proto__', requestId: '../x', reason: 'Bearer abcdefghijk' } },
      act(orgId, 'queue.changed', { é: 1, e: 2 }),
    ]);
    await auditAll(ledger.db);
    expect((await rowsOf(orgId)).map(({ actor_id }) => actor_id)).toEqual(['__proto__', 'operator']);
    expect(JSON.stringify(await rowsOf(orgId))).not.toContain('abcdefghijk');
    expect(await verifyAudit(ledger.db, { orgId })).toMatchObject({ ok: true, rows: 2 });
  });
});

describe('retention', () => {
  test('removes the front of a chain and keeps the hash of the last removed row [C131]', async () => {
    const [old, young] = [await ledger.newOrg(), await ledger.newOrg()];
    await recordActions(
      ledger.db.api,
      [1, 2, 3].map((n) => act(old, 'queue.changed', { n })),
    );
    await auditAll(ledger.db);
    await ledger.moveClock(366 * DAY);
    await recordActions(ledger.db.api, [act(old, 'queue.changed', { n: 4 }), act(young, 'queue.changed')]);
    await auditAll(ledger.db);
    await until('everything old is gone', () => pruneAudit(ledger.db.maintenance, { retentionMs: 365 * DAY, limit: 2 }), 0);
    expect((await rowsOf(old)).map(({ position }) => position)).toEqual([4]);
    expect((await rowsOf(young)).length).toBe(1);
    expect(await verifyAudit(ledger.db, { orgId: old })).toMatchObject({ ok: true, rows: 1 });
    await recordActions(ledger.db.api, [act(old, 'queue.changed', { n: 5 })]);
    await auditAll(ledger.db);
    expect(await verifyAudit(ledger.db, { orgId: old })).toMatchObject({ ok: true, rows: 2 });
    await ledger.db.api.query(`UPDATE millrace.audit_rows SET event = 'queue.changes' WHERE org_id = $1 AND position = 4`, [old]);
    expect(await verifyAudit(ledger.db, { orgId: old })).toMatchObject({ ok: false, firstBad: { position: 4 } });
  });
});

test('a stranger can compute every hash from an export, by the documented rule', async () => {
  const orgId = NIL_ORG_ID;
  await recordActions(ledger.db.api, [act(orgId, 'queue.paused', { z: 1, a: 'ü "' }), act(orgId, 'queue.resumed')]);
  await auditAll(ledger.db);
  let text = '';
  for await (const lines of exportAudit(ledger.db, { orgId })) text += lines;
  let previous = '0'.repeat(64);
  const lines = text.trimEnd().split('\n');
  for (const line of lines) {
    const end = line.indexOf(',"previous_hash":"');
    const { hash } = JSON.parse(line) as { hash: string };
    expect(
      createHash('sha256')
        .update(`${previous}\n${line.slice(0, end)}}`)
        .digest('hex'),
    ).toBe(hash);
    previous = hash;
  }
  expect(lines.length).toBe(2);
});
