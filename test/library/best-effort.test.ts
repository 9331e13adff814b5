/** `enqueueBestEffort`: the write of the caller commits, whatever becomes of its notification. */
import { randomBytes, randomUUID } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { BestEffortResult, EngineEvents, Millrace } from '../../src/index.ts';
import { ACTIONS } from '../ledger/audited-actions.ts';
import { useBench } from './fixture.ts';

const bench = useBench();

const TYPE = 'mail';
const mail = (more: object = {}) => ({ recipient: 'ada@example.com', template: 'welcome', id: randomUUID(), ...more });

type Scene = { millrace: Millrace; client: pg.Client; org: string; lost: EngineEvents['notificationLost'][] };

async function scene(): Promise<Scene> {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.open({ org });
  millrace.register({ type: TYPE, handler: () => 'sent' });
  const lost: EngineEvents['notificationLost'][] = [];
  millrace.on('notificationLost', (loss) => lost.push(loss));
  const client = await bench.connect();
  await client.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)');
  return { millrace, client, org, lost };
}

/** Writes an order and enqueues a notification in one transaction. */
async function order({ millrace, client }: Scene, submission: object, end = 'COMMIT') {
  const id = randomBytes(6).toString('hex');
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES ($1)', [id]);
  const result: BestEffortResult = await millrace.enqueueBestEffort({ type: TYPE, payload: mail(), ...submission }, { client });
  await client.query(end);
  const { rows } = await client.query('SELECT id FROM orders WHERE id = $1', [id]);
  return { result, isWritten: rows.length === 1 };
}

const losses = async (org: string) =>
  (await bench.ledger.db.api.query(`SELECT event, actor, job_type, details FROM ${ACTIONS} WHERE org_id = $1`, [org])).rows;

describe('a notification that can be enqueued', () => {
  it('exists once the write commits, as a governed job [AB-cat.05] [AB-consistency.02]', async () => {
    const it = await scene();
    const { result, isWritten } = await order(it, {});
    expect([result.status, isWritten]).toEqual(['ACCEPTED', true]);
    expect(await it.millrace.get(result.jobId as string)).toMatchObject({ category: 'notification', queue: 'q:notifications' });
    expect([await losses(it.org), it.lost]).toEqual([[], []]);
  });

  it('vanishes with a write that is rolled back', async () => {
    const it = await scene();
    const { result, isWritten } = await order(it, {}, 'ROLLBACK');
    expect(isWritten).toBe(false);
    expect(await it.millrace.get(result.jobId as string)).toBeNull();
  });

  it('leaves the settings of the transaction alone', async () => {
    const it = await scene();
    await it.client.query('BEGIN');
    await it.client.query(`SET LOCAL lock_timeout = '17s'`);
    await it.millrace.enqueueBestEffort({ type: TYPE, payload: mail() }, { client: it.client });
    expect((await it.client.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '17s' }]);
    await it.client.query('COMMIT');
  });

  it('works without a transaction too', async () => {
    const { millrace } = await scene();
    expect(await millrace.enqueueBestEffort({ type: TYPE, payload: mail() })).toMatchObject({ status: 'ACCEPTED' });
    expect(await millrace.enqueueBestEffort({ type: TYPE, payload: {} })).toMatchObject({ status: 'LOST', jobId: null });
  });
});

describe('a notification that is lost', () => {
  it.each([
    ['has no recipient', { payload: { template: 't' } }, 'INVALID_REQUEST'],
    ['contains a secret', { payload: mail({ token: 'sesame' }) }, 'INVALID_REQUEST'],
    ['has a type that no worker registered', { type: 'nobody' }, 'INVALID_REQUEST'],
    ['depends on a job that does not exist', { dependsOn: [randomUUID()] }, 'INVALID_REQUEST'],
    ['has a payload that is too large', { payload: mail({ text: 'x'.repeat(2_000_000) }) }, 'INVALID_REQUEST'],
  ])('because it %s does not fail the write, and is recorded [AB-cat.05]', async (_, submission, code) => {
    const it = await scene();
    const { result, isWritten } = await order(it, submission);
    expect([result.status, result.jobId, isWritten]).toEqual(['LOST', null, true]);
    expect(result).toMatchObject({ error: { code } });
    const type = 'type' in submission ? submission.type : TYPE;
    expect(await losses(it.org)).toEqual([
      { event: 'notification.lost', actor: 'system:millrace', job_type: type, details: { code, message: expect.any(String) } },
    ]);
    expect(it.lost).toMatchObject([{ orgId: it.org, type }]);
    expect(JSON.stringify(await losses(it.org))).not.toContain('sesame');
  });

  it('because the database refuses it does not fail the write [AB-cat.05]', async () => {
    const it = await scene();
    await bench.ledger.db.api.query(`CREATE FUNCTION pg_temp_refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.org_id = '${it.org}' THEN RAISE EXCEPTION 'the disk is on fire'; END IF; RETURN NEW; END $$`);
    await bench.ledger.db.api.query('CREATE TRIGGER refuse BEFORE INSERT ON millrace.jobs FOR EACH ROW EXECUTE FUNCTION pg_temp_refuse()');
    const { result, isWritten } = await order(it, {});
    await bench.ledger.db.api.query('DROP TRIGGER refuse ON millrace.jobs');
    expect([result.status, isWritten]).toEqual(['LOST', true]);
    expect(await losses(it.org)).toMatchObject([{ details: { message: expect.stringContaining('the disk is on fire') } }]);
  });

  it('because another transaction holds its key does not wait for it', async () => {
    const [it, other] = [await scene(), await bench.connect()];
    const same = { type: TYPE, payload: mail(), scheduledAt: new Date(Date.now() + 3_600_000) };
    await other.query('BEGIN');
    await it.millrace.submit({ ...same, category: 'notification' }, { client: other });
    const { result, isWritten } = await order(it, same);
    await other.query('COMMIT');
    expect([result.status, isWritten]).toEqual(['LOST', true]);
  });

  it('is recorded even if the write is rolled back', async () => {
    const it = await scene();
    expect((await order(it, { payload: {} }, 'ROLLBACK')).isWritten).toBe(false);
    expect(await losses(it.org)).toHaveLength(1);
  });
});

describe('a wrong call', () => {
  it('is refused, because it is a mistake of the program', async () => {
    const { millrace, client } = await scene();
    const enqueue = (submission: object, options?: object) =>
      millrace.enqueueBestEffort({ type: TYPE, payload: mail(), ...submission } as never, options as never);
    await expect(enqueue({ category: 'planning' })).rejects.toMatchObject({ code: 'INVALID_REQUEST', details: [{ field: 'category' }] });
    await expect(enqueue({}, { client })).rejects.toMatchObject({ details: [{ code: 'NOT_IN_TRANSACTION' }] });
    await expect(enqueue({}, { client: {} })).rejects.toMatchObject({ details: [{ field: 'client' }] });
    await expect(enqueue({}, { transaction: client })).rejects.toMatchObject({ details: [{ code: 'UNKNOWN_MEMBER' }] });
  });
});
