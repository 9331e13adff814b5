import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { recordActions } from '../../src/ledger/audit/record-action.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { verifyAudit } from '../../src/services/audit/verify-audit.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const WRITER = fileURLToPath(new URL('./fixtures/audit-writer.ts', import.meta.url));

/** A process that writes the trail until it is killed, in small pages. */
async function newWriter(): Promise<ChildProcess> {
  const child = fork(WRITER, [ledger.db.url], { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'message');
  return child;
}

test('writers that are killed at any moment, two at a time, leave each event once in an unbroken chain', async () => {
  const orgId = await ledger.newOrg();
  const total = 300;
  const envelope = { requestId: null, category: 'maintenance', projectId: null, traceparent: null };
  const requester = { actor: 'user:operator', requestId: null };
  let isDone = false;
  const submitting = (async () => {
    for (let n = 0; n < total; n++) {
      await inTransaction(ledger.db.api, async (client) => {
        await recordActions(client, [{ orgId, event: 'queue.changed', requester, details: { n } }]);
        await ledger.submitOneOn(client, { orgId, job: { envelope } });
      });
    }
    isDone = true;
  })();
  for (let kills = 0; kills < 8 || !isDone; kills++) {
    const [one, other] = await Promise.all([newWriter(), newWriter()]);
    await once(one, 'message');
    one.kill('SIGKILL');
    other.kill('SIGKILL');
    await Promise.all([one, other].map((child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')));
  }
  await submitting;
  await newWriter();
  const count = async () =>
    (await ledger.db.api.query('SELECT count(*)::int4 AS n FROM millrace.audit_rows WHERE org_id = $1', [orgId])).rows[0].n;
  await until('every event has its row', count, total * 2);
  expect(await verifyAudit(ledger.db, { orgId })).toMatchObject({ ok: true, rows: total * 2, setAside: 0 });
  const { rows } = await ledger.db.api.query(
    `SELECT count(DISTINCT job_id)::int4 AS jobs, count(DISTINCT details->>'n')::int4 AS actions FROM millrace.audit_rows WHERE org_id = $1`,
    [orgId],
  );
  expect(rows[0]).toEqual({ jobs: total, actions: total });
});
