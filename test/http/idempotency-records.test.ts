import { describe, expect, test } from 'vitest';
import { PermanentError } from '../../src/core/failure.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue();
const PROJECT = '6f1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c01';
const OTHER_PROJECT = '6f1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c02';
const MINUTE_MS = 60_000;

const pathOf = (key: string) => `/idempotency-keys/${encodeURIComponent(key)}`;
const msOf = (text: string) => new Date(text).getTime();

describe('the record of a key', () => {
  test('has the job, its times and no references while the job waits [AB-idem.09] [AB-idem.10]', async () => {
    const caller = await queue.caller();
    const type = `idle-${randomId()}`;
    const jobId = await caller.submit({ type, idempotency_key: 'k-1' });
    const { status, body } = await caller.get(pathOf('k-1'), { type });
    const created = (await caller.get(`/jobs/${jobId}`)).body.created_at;
    expect(status).toBe(200);
    expect(body).toEqual({
      key: 'k-1',
      type,
      project_id: null,
      status: 'pending',
      first_seen_at: created,
      last_seen_at: created,
      expires_at: new Date(msOf(created) + 86_400_000).toISOString(),
      job_id: jobId,
      result_ref: null,
      error_ref: null,
    });
  });

  test('a repeat moves last_seen_at and nothing else [AB-idem.11]', async () => {
    const caller = await queue.caller();
    const request = { type: `idle-${randomId()}`, payload: {}, idempotency_key: 'again' };
    await caller.post('/jobs', request);
    const first = (await caller.get(pathOf('again'))).body;
    await queue.ledger.moveClock(10 * MINUTE_MS);
    expect((await caller.post('/jobs', request)).status).toBe(200);
    const second = (await caller.get(pathOf('again'))).body;
    expect(msOf(second.last_seen_at) - msOf(first.last_seen_at)).toBeGreaterThanOrEqual(10 * MINUTE_MS);
    expect({ ...second, last_seen_at: first.last_seen_at }).toEqual(first);
  });

  test('follows the job to its result [AB-idem.12]', async () => {
    const caller = await queue.caller();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: entered, resolve: enter } = Promise.withResolvers<void>();
    const handler = async () => {
      enter();
      await released;
      return { total: 7 };
    };
    const jobId = await caller.act(handler, { idempotency_key: 'r' });
    await entered;
    expect((await caller.get(pathOf('r'))).body.status).toBe('running');
    release();
    await caller.reached(jobId, 'COMPLETED');
    const { body } = await caller.get(pathOf('r'));
    expect(body).toMatchObject({ status: 'succeeded', error_ref: null });
    const result = await caller.get(body.result_ref.replace('/queue/v1', ''));
    expect(result.body.result.output).toEqual({ total: 7 });
  });

  test('leads to the failure of a failed and of a dead job [AB-idem.13]', async () => {
    const caller = await queue.caller();
    const failing = async () => {
      throw new PermanentError('no such customer');
    };
    const failed = await caller.act(failing, { idempotency_key: 'f' });
    await caller.reached(failed, 'FAILED');
    const record = (await caller.get(pathOf('f'))).body;
    expect(record).toMatchObject({ status: 'failed', result_ref: null });
    expect((await caller.get(record.error_ref.replace('/queue/v1', ''))).body.failure.message).toBe('no such customer');
    const dead = await caller.act(
      async () => {
        throw new Error('again and again');
      },
      { idempotency_key: 'd', max_attempts: 1 },
    );
    await caller.reached(dead, 'DEAD_LETTER');
    const { body } = await caller.get(pathOf('d'));
    expect(body.status).toBe('dead');
    expect((await caller.get(body.error_ref.replace('/queue/v1', ''))).status).toBe(200);
  });

  test('of a cancelled job is failed and leads to the cancellation [C18]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ idempotency_key: 'c' });
    await caller.post(`/jobs/${jobId}/cancel`, { reason: 'not needed' });
    const { body } = await caller.get(pathOf('c'));
    expect(body.status).toBe('failed');
    const { history } = (await caller.get(body.error_ref.replace('/queue/v1', ''))).body;
    expect(history.at(-1)).toMatchObject({ to_state: 'CANCELLED' });
  });
});

describe('the owner of a key', () => {
  test('one key in two orgs gives two records [AB-idem.03] [C10]', async () => {
    const [one, two] = [await queue.caller(), await queue.caller()];
    const type = `idle-${randomId()}`;
    const first = await one.submit({ type, idempotency_key: 'shared' });
    expect((await two.get(pathOf('shared'))).status).toBe(404);
    const second = await two.submit({ type, idempotency_key: 'shared' });
    expect((await one.get(pathOf('shared'))).body.job_id).toBe(first);
    expect((await two.get(pathOf('shared'))).body.job_id).toBe(second);
  });

  test('a key of several types needs the type, and the error lists them', async () => {
    const caller = await queue.caller();
    const [a, b] = [`a-${randomId()}`, `b-${randomId()}`];
    const first = await caller.submit({ type: a, idempotency_key: 'both' });
    await caller.submit({ type: b, idempotency_key: 'both' });
    const refused = await caller.get(pathOf('both'));
    expect(refused.status).toBe(400);
    expect(refused.body.message).toContain(`type=${a}`);
    expect(refused.body.message).toContain(`type=${b}`);
    expect((await caller.get(pathOf('both'), { type: a })).body.job_id).toBe(first);
    expect((await caller.get(pathOf('both'), { type: 'neither' })).status).toBe(404);
  });

  test('a key of a project is found by it, and a key bound to another project sees nothing [AB-idem.04]', async () => {
    const caller = await queue.caller();
    const type = `idle-${randomId()}`;
    const [inside, outside] = [await caller.inProject(PROJECT), await caller.inProject(OTHER_PROJECT)];
    const ofProject = await inside.submit({ type, idempotency_key: 'p' });
    const ofOther = await outside.submit({ type, idempotency_key: 'p' });
    expect((await inside.get(pathOf('p'))).body).toMatchObject({ job_id: ofProject, project_id: PROJECT });
    expect((await outside.get(pathOf('p'))).body).toMatchObject({ job_id: ofOther });
    expect((await outside.get(pathOf('p'), { project_id: PROJECT })).status).toBe(404);
    const refused = await caller.get(pathOf('p'), { type });
    expect(refused.status).toBe(400);
    expect(refused.body.message).toContain(`project_id=${PROJECT}`);
    expect((await caller.get(pathOf('p'), { project_id: OTHER_PROJECT })).body.job_id).toBe(ofOther);
    const ofOrg = await caller.submit({ type, idempotency_key: 'p' });
    expect((await caller.get(pathOf('p'), { type })).body.job_id).toBe(ofOrg);
  });

  test.each(['__proto__', 'constructor', '../../etc/passwd', '%00', 'a\nb', '‮gnp.exe', '🗝'.repeat(128)])('a key may be %j', async (key) => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ idempotency_key: key });
    expect((await caller.get(pathOf(key))).body).toMatchObject({ key, job_id: jobId });
  });

  test.each(['\0', 'x'.repeat(2_000), 'never used'])('an unknown key is not found: %#', async (key) => {
    const caller = await queue.caller();
    expect((await caller.get(pathOf(key))).status).toBe(404);
  });

  test('reading needs jobs:read', async () => {
    const caller = await queue.caller();
    expect((await (await caller.with('jobs:write')).get(pathOf('x'))).status).toBe(403);
  });
});

describe('the end of a key', () => {
  test('its window is that of the policy, and the key then belongs to the next job [AB-idem.14] [C11]', async () => {
    const caller = await queue.caller();
    const type = `idle-${randomId()}`;
    const jobId = await caller.submit({ type, idempotency_key: 'w' });
    const { body } = await caller.get(pathOf('w'));
    await caller.post('/jobs', { type, payload: {}, idempotency_key: 'w' });
    await queue.ledger.moveClock(msOf(body.expires_at) - msOf(body.first_seen_at) + MINUTE_MS);
    expect((await caller.get(pathOf('w'))).status).toBe(404);
    const next = await caller.submit({ type, idempotency_key: 'w' });
    expect(next).not.toBe(jobId);
    const renewed = (await caller.get(pathOf('w'))).body;
    expect(renewed.job_id).toBe(next);
    expect(renewed.last_seen_at).toBe(renewed.first_seen_at);
  });

  test('a repeat in SQL moves last_seen_at as well [AB-idem.11]', async () => {
    const caller = await queue.caller();
    const type = `idle-${randomId()}`;
    const { rows } = await queue.ledger.db.api.query('SELECT slug FROM millrace.orgs WHERE id = $1', [caller.orgId]);
    const submit = () =>
      inTransaction(queue.ledger.db.api, (client) =>
        client.query(`SELECT millrace.submit($1, '{}', idempotency_key => 'sql', org => $2)`, [type, rows[0].slug]),
      );
    await submit();
    await queue.ledger.moveClock(10 * MINUTE_MS);
    await submit();
    const { body } = await caller.get(pathOf('sql'));
    expect(msOf(body.last_seen_at) - msOf(body.first_seen_at)).toBeGreaterThanOrEqual(10 * MINUTE_MS);
  });
});
