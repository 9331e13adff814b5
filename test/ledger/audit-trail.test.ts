import { describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { pruneJobs } from '../../src/ledger/upkeep/prune.ts';
import { verifyAudit } from '../../src/services/audit/verify-audit.ts';
import { auditAll } from './audit-all.ts';
import { type SubmitOverrides, useLedger } from './fixture.ts';

const ledger = useLedger();

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

describe('what is in the trail', () => {
  test('a governed job has a row for each thing that happened to it, with the fields of the contract [AB-scope.01] [AB-scope.02] [AB-audit.01] [AB-audit.02] [AB-audit.03] [AB-audit.08] [AB-audit.10] [AB-audit.11] [AB-audit.12] [AB-audit.13] [AB-audit.14] [AB-audit.15] [AB-audit.16] [AB-audit.17] [C126] [AB-principle.01]', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob('completed', governed(orgId));
    await auditAll(ledger.db);
    const common = {
      org_id: orgId,
      actor_type: 'api_key',
      actor_id: '4kJ',
      request_id: 'request-1',
      correlation_id: 'request-1',
      job_id: job.id,
      job_type: job.jobType,
    };
    expect(await rowsOf(orgId)).toMatchObject([
      { ...common, position: 1, event: 'job.enqueued', attempt: 0, performed_by: null },
      { ...common, position: 2, event: 'job.started', attempt: 1, performed_by: expect.stringMatching(/^worker:\d+$/) },
      { ...common, position: 3, event: 'job.succeeded', attempt: 1, performed_by: expect.stringMatching(/^worker:\d+$/) },
    ]);
    for (const { at, recorded_at } of await rowsOf(orgId)) expect((recorded_at as Date) >= (at as Date)).toBe(true);
  });

  test('each failed attempt says whether it was the last, then the dead letter follows; re-queues are retries [AB-audit.04] [AB-audit.05] [AB-audit.06] [C107]', async () => {
    const orgId = await ledger.newOrg();
    const failure = JSON.stringify({
      category: 'TEMPORARY',
      code: 'E1',
      message: 'password=hunter2 was refused',
      stackTrace: 'at secret.ts',
    });
    const first = await ledger.start(await ledger.submitOne(governed(orgId)));
    await ledger.settle(first, { to: 'retrying', reason: 'temporary_failure', failure, delayMs: 0 });
    const second = await ledger.start(first);
    await ledger.settle(second, { to: 'dead_letter', reason: 'attempts_exhausted', failure });
    await auditAll(ledger.db);
    const rows = await rowsOf(orgId);
    expect(rows.map(({ event, attempt, details }) => [event, attempt, details.final])).toEqual([
      ['job.enqueued', 0, undefined],
      ['job.started', 1, undefined],
      ['job.failed', 1, false],
      ['job.retried', 1, undefined],
      ['job.started', 2, undefined],
      ['job.failed', 2, true],
      ['job.deadlettered', 2, undefined],
    ]);
    expect(rows[2]?.details).toMatchObject({ code: 'E1', category: 'TEMPORARY' });
    expect(JSON.stringify(rows.map(({ details }) => details))).not.toMatch(/hunter2|secret\.ts/);
  });

  test('plain jobs are not in it by default, and are with "all"; a free-form category is not one of the five', async () => {
    const [plain, free] = [await ledger.newOrg(), await ledger.newOrg()];
    await ledger.putJob('completed', { orgId: plain });
    await ledger.putJob('completed', governed(free, 'constructor'));
    await auditAll(ledger.db);
    expect([await eventsOf(plain), await eventsOf(free)]).toEqual([[], []]);
    await ledger.putJob('completed', { orgId: plain });
    await auditAll(ledger.db, 'all');
    expect(await eventsOf(plain)).toEqual(['job.enqueued', 'job.started', 'job.succeeded']);
  });

  test('a governed job among plain ones of the same statement and org is found', async () => {
    const orgId = await ledger.newOrg();
    await ledger.putJob('completed', { orgId });
    await ledger.putJob('running', governed(orgId, 'planning'));
    await ledger.putJob('completed', { orgId });
    await auditAll(ledger.db);
    expect(await eventsOf(orgId)).toEqual(['job.enqueued', 'job.started']);
  });

  test('a cancel is asked for, then done; one that changes nothing has a row too [AB-audit.07] [AB-cancel.03] [C67]', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.submitOne(governed(orgId));
    const how = { orgId, projectId: null, ids: [job.id], reason: 'ordered twice', actor: 'api_key:other', force: false };
    await cancelJobs(ledger.db.api, { ...how, requestIds: ['request-7'] });
    await cancelJobs(ledger.db.api, { ...how, requestIds: ['request-8'] });
    await auditAll(ledger.db);
    expect(await rowsOf(orgId)).toMatchObject([
      { event: 'job.enqueued' },
      {
        event: 'job.cancel_requested',
        actor_id: 'other',
        request_id: 'request-7',
        details: { state: 'scheduled', reason: 'ordered twice' },
      },
      {
        event: 'job.cancelled',
        actor_id: '4kJ',
        request_id: 'request-1',
        performed_by: 'api_key:other',
        details: { words: 'ordered twice' },
      },
      { event: 'job.cancel_requested', request_id: 'request-8', details: { state: 'cancelled' } },
    ]);
    expect((await ledger.eventsOf(job)).length).toBe(2);
  });

  test('a retry by hand has one row, with the actor and the request of who asked [AB-audit.06] [C126]', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob('failed', governed(orgId));
    await retryJob(ledger.db.api, {
      ...{ orgId, projectId: null, id: job.id, resetAttempts: true, priority: null, delayMs: 0 },
      ...{ actor: 'api_key:boss', requestId: 'request-9', reason: 'fixed' },
    });
    await auditAll(ledger.db);
    const [retried, ...others] = (await rowsOf(orgId)).filter(({ event }) => event === 'job.retried');
    expect(others).toEqual([]);
    expect(retried).toMatchObject({ actor_id: 'boss', request_id: 'request-9', details: { from: 'failed', reason: 'fixed' } });
  });

  test('the rows of a job outlive it, and a job stays until it has its rows [C131] [AB-audit.18]', async () => {
    const orgId = await ledger.newOrg();
    const job = await ledger.putJob('completed', { ...governed(orgId), policy: { retentionMs: 0 } });
    await ledger.project();
    await ledger.putJob('completed', { ...governed(orgId), policy: { retentionMs: 0 } });
    // As if the rollups were ahead of the audit trail.
    await ledger.db.api.query(
      `UPDATE millrace.projections SET txid = ((SELECT max(txid) FROM millrace.records)::text::int8 + 1)::text::xid8, inside_txid = NULL WHERE name = 'rollups'`,
    );
    await pruneJobs(ledger.db.maintenance, 100);
    const left = await ledger.db.api.query('SELECT id FROM millrace.jobs WHERE org_id = $1', [orgId]);
    expect(left.rows.map(({ id }) => id)).not.toContain(job.id);
    expect(left.rows.length).toBe(1);
    await auditAll(ledger.db);
    await pruneJobs(ledger.db.maintenance, 100);
    expect((await ledger.db.api.query('SELECT FROM millrace.jobs WHERE org_id = $1', [orgId])).rowCount).toBe(0);
    expect((await eventsOf(orgId)).length).toBe(6);
    expect(await verifyAudit(ledger.db, { orgId })).toMatchObject({ ok: true, rows: 6 });
  });
});
