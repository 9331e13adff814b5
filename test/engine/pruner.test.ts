import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { Pruner, type PrunerParams } from '../../src/engine/upkeep/pruner.ts';
import { createApiKey, listApiKeys, revokeApiKey } from '../../src/ledger/access/api-keys.ts';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const { ledger } = bench;
const DAY = 86_400_000;

let asked = 0;
beforeAll(() =>
  observeStatements(({ name }) => {
    if (name === 'millrace_has_maintenance_worker') asked++;
  }),
);
afterAll(() => observeStatements(null));

const running: Pruner[] = [];
afterEach(() => Promise.all(running.splice(0).map((pruner) => pruner.stop())));

function startPruner(params: Partial<PrunerParams> = {}): void {
  const events = new EventHub();
  const pruner = new Pruner({ database: ledger.db, events, onReleased() {}, firstWithinMs: 0, ...params });
  running.push(pruner);
  pruner.start();
}

const count = async (text: string, values: unknown[] = []): Promise<number> =>
  (await ledger.db.api.query(`SELECT count(*)::int4 AS count FROM ${text}`, values)).rows[0].count;

/** A key of a new org that was revoked two days ago, and a reply that expired: that goes after keys have gone. */
async function putRevokedKey() {
  const orgId = await ledger.newOrg();
  const id = `revoked-${randomBytes(4).toString('hex')}`;
  const hash = { secretHash: randomBytes(32), lifetimeMs: DAY };
  await createApiKey(ledger.db.api, orgId, { id, projectId: null, name: 'key', scopes: [], ...hash });
  await revokeApiKey(ledger.db.api, orgId, id);
  await ledger.db.api.query(`UPDATE millrace.api_keys SET revoked_at = revoked_at - interval '2 days' WHERE id = $1`, [id]);
  await ledger.db.api.query(`INSERT INTO millrace.create_replies VALUES ($1, 'k', 'f', '{}', now())`, [orgId]);
  const pruned = () => until('the kept replies have been pruned', () => count('millrace.create_replies WHERE scope = $1', [orgId]), 0);
  return { pruned, left: async () => (await listApiKeys(ledger.db.api, orgId)).length };
}

describe('the pruner', () => {
  it('goes on at once while there is more of anything to remove', async () => {
    const orgId = await ledger.newOrg();
    await ledger.db.api.query(
      `INSERT INTO millrace.idempotency_keys (org_id, scope, key, job_id, fingerprint, expires_at)
       SELECT $1, 'x', n::text, gen_random_uuid(), 'f', now() FROM generate_series(1, 2500) n`,
      [orgId],
    );
    await ledger.db.api.query(
      `INSERT INTO millrace.cancel_requests SELECT $1, n, false, NULL, NULL, now() FROM generate_series(1, 2500) n`,
      [orgId],
    );
    startPruner();
    await until('the idempotency keys have been pruned', () => count('millrace.idempotency_keys WHERE org_id = $1', [orgId]), 0);
    await until('the cancel requests have been pruned', () => count('millrace.cancel_requests WHERE org_id = $1', [orgId]), 0);
  });

  it('removes dead workers and creates partitions even while there is much to prune', async () => {
    await ledger.putJob('completed', { policy: { retentionMs: 0 } });
    await ledger.project();
    const workerId = await ledger.registerWorker();
    await ledger.db.api.query(`UPDATE millrace.workers SET stopped_at = now() - interval '91 days' WHERE id = $1`, [workerId]);
    const holder = await bench.connect();
    await holder.query('BEGIN');
    // The pruner skips locked rows, so it takes a whole table to hold it up.
    await holder.query('LOCK TABLE millrace.progress IN ACCESS EXCLUSIVE MODE');
    startPruner();
    await ledger.untilBlocked();
    await until('the dead worker has been removed', () => count('millrace.workers WHERE id = $1', [workerId]), 0);
    expect(await count(`pg_class WHERE relname ~ '^records_[0-9]{8}$' AND relkind = 'r'`)).toBeGreaterThan(7);
    await holder.query('ROLLBACK');
  });

  it('leaves the removal to the jobs of a process that runs maintenance, and takes over when that is gone', async () => {
    asked = 0;
    const key = await putRevokedKey();
    const workerId = await ledger.registerWorker();
    await ledger.db.api.query(`UPDATE millrace.workers SET types = '{millrace.maintenance}' WHERE id = $1`, [workerId]);
    const dead = await ledger.registerWorker();
    await ledger.db.api.query(`UPDATE millrace.workers SET stopped_at = now() - interval '91 days' WHERE id = $1`, [dead]);
    startPruner({ revokedKeysMs: DAY });
    // This part of the pruner runs in any case.
    await until('the dead worker has been removed', () => count('millrace.workers WHERE id = $1', [dead]), 0);
    await until('the pruner and the tidier asked', () => asked >= 2);
    // A round that began is over then.
    await Promise.all(running.splice(0).map((pruner) => pruner.stop()));
    expect(await key.left()).toBe(1);
    await ledger.db.api.query(`UPDATE millrace.workers SET stopped_at = now() WHERE id = $1`, [workerId]);
    startPruner({ revokedKeysMs: DAY });
    await key.pruned();
    expect(await key.left()).toBe(0);
  });

  it('removes revoked keys only where their retention is configured', async () => {
    const key = await putRevokedKey();
    startPruner();
    await key.pruned();
    expect(await key.left()).toBe(1);
    // It would prune the reply of the other key, and leave that key.
    await Promise.all(running.splice(0).map((pruner) => pruner.stop()));
    const other = await putRevokedKey();
    startPruner({ revokedKeysMs: DAY });
    await other.pruned();
    expect([await key.left(), await other.left()]).toEqual([0, 0]);
  });
});

describe('the library', () => {
  it('refuses a pause that is none', async () => {
    await expect(bench.open({ heartbeat: 'soon' })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    await expect(bench.open({ keepRevokedKeys: 'long' })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });
});
