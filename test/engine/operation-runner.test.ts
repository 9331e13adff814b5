import { expect, it } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { readItems, readOperation } from '../../src/services/operations/read-operations.ts';
import { startOperation } from '../../src/services/operations/start-operation.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { useLedger } from '../ledger/fixture.ts';
import { whileHolding } from '../ledger/while-holding.ts';

const ledger = useLedger();
const JOBS = 60;
const requester = { actor: 'user:operator', requestId: null };

const engineOn = (database: ReturnType<typeof openDatabase>): Engine => createEngine({ database, profile: PROFILES.gopherqueue });

async function deadJobs(count: number): Promise<{ orgId: string; ids: string[] }> {
  const orgId = await ledger.newOrg();
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await ledger.putJob('dead_letter', { orgId })).id);
  return { orgId, ids };
}

it('several processes carry out an operation together, and act on each job once', async () => {
  const { orgId, ids } = await deadJobs(JOBS);
  const others = [1, 2, 3].map(() => openDatabase({ url: ledger.db.url }));
  const engines = others.map(engineOn);
  const request = { action: 'fix_forward', filter: {}, payload: { fine: true }, rate: 10_000 } as const;
  const { id } = await startOperation(engines[0] as Engine, { ...wholeOrg(orgId), requester, request });
  try {
    while ((await readOperation(engines[0] as Engine, { ...wholeOrg(orgId), id })).sent < JOBS)
      await Promise.all(engines.map((engine) => engine.deadLetters.runner.round()));
  } finally {
    for (const database of others) await database.close();
  }
  const { items } = await readItems(engineOn(ledger.db), { ...wholeOrg(orgId), id, limit: 1_000 });
  expect(items.map(({ jobId }) => jobId).sort()).toEqual([...ids].sort());
  const { rows } = await ledger.db.api.query('SELECT replaces_id FROM millrace.jobs WHERE org_id = $1 AND replaces_id IS NOT NULL', [
    orgId,
  ]);
  expect(rows.map(({ replaces_id }) => replaces_id).sort()).toEqual([...ids].sort());
  const actions = await ledger.db.api.query(`SELECT job_id FROM ${ACTIONS} WHERE org_id = $1 AND event = 'deadletter.fixed_forward'`, [
    orgId,
  ]);
  expect(actions.rows).toHaveLength(JOBS);
});

it('a job that another transaction holds does not hold up the others, and has its turn later', async () => {
  const { orgId, ids } = await deadJobs(5);
  const engine = engineOn(ledger.db);
  const { id } = await startOperation(engine, { ...wholeOrg(orgId), requester, request: { action: 'discard', filter: {}, rate: 10_000 } });
  const read = () => readOperation(engine, { ...wholeOrg(orgId), id });
  const roundsUntil = async (succeeded: number) => {
    while ((await read()).succeeded < succeeded) await engine.deadLetters.runner.round();
  };
  await whileHolding({ url: ledger.db.url, text: 'SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', values: [ids[0]] }, () =>
    roundsUntil(4),
  );
  expect(await read()).toMatchObject({ state: 'running', succeeded: 4 });
  await roundsUntil(5);
});

it('lists more jobs than one step looks at, without those that died later', async () => {
  const orgId = await ledger.newOrg();
  await ledger.db.api.query(
    `INSERT INTO millrace.dead_letters (org_id, seq, job_id, job_type, queue, failed_at, attempts, reason, code, error, fingerprint, is_alerted)
     SELECT $1, n, gen_random_uuid(), 't', 'q:default', millrace.clock() - interval '1 minute', 1, 'attempts_exhausted', 'C', '{}', 'f', true
     FROM generate_series(1, 25000) n`,
    [orgId],
  );
  const engine = engineOn(ledger.db);
  const request = { action: 'replay', filter: { fingerprint: 'f' }, rate: 0.01 } as const;
  const created = await startOperation(engine, { ...wholeOrg(orgId), requester, request });
  expect(created).toMatchObject({ matching: 20_000, isListed: false });
  await ledger.db.api.query(
    `INSERT INTO millrace.dead_letters (org_id, seq, job_id, job_type, queue, failed_at, attempts, reason, code, error, fingerprint, is_alerted)
     VALUES ($1, 30000, gen_random_uuid(), 't', 'q:default', millrace.clock() + interval '1 minute', 1, 'attempts_exhausted', 'C', '{}', 'f', true)`,
    [orgId],
  );
  const read = () => readOperation(engine, { ...wholeOrg(orgId), id: created.id });
  while (!(await read()).isListed) await engine.deadLetters.runner.round();
  expect(await read()).toMatchObject({ matching: 25_000 });
});
