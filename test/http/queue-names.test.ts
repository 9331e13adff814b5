import { describe, expect, it } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { configureQueue, introduceQueues, readQueues } from '../../src/ledger/queues/queues.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { submitMany } from '../../src/services/jobs/submit-many.ts';
import { watchStatements } from './auth-fixture.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue();
const STANDING = ['q:critical', 'q:default', 'q:notifications', 'q:planning', 'q:exports', 'q:maintenance'];

const job = (name: string) => ({ type: 'nobody', payload: {}, queue: name });
const names = async () => (await readQueues(queue.ledger.db.api)).map(({ name }) => name);

describe('over HTTP', () => {
  it.each(STANDING)('%s may be named [AB-queue.02..07] [C61]', async (name) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', job(name));
    expect(status).toBe(202);
    expect((await caller.get(`/jobs/${body.job_id}`)).body.queue).toBe(name);
  });

  it('an invalid queue name is refused with the list of queues, and creates none [C61]', async () => {
    const caller = await queue.caller();
    const name = `z:${randomId()}`;
    const before = await names();
    const { status, body } = await caller.post('/jobs', { ...job(name), priority: 'SOON' });
    expect([status, body.code]).toEqual([400, 'INVALID_REQUEST']);
    const [told, ...rest] = body.details;
    expect(told).toMatchObject({ field: 'queue', code: 'UNKNOWN_QUEUE' });
    for (const word of [...STANDING, '[queues."name"]', 'queues.configure']) expect(told.message).toContain(word);
    expect(rest).toEqual([expect.objectContaining({ field: 'priority' })]);
    expect((await caller.post('/jobs', job('q:deadletter'))).status).toBe(400);
    expect(await names()).toEqual(before);
  });

  it('a batch names no new queue either, whole or in part [C61]', async () => {
    const caller = await queue.caller();
    const before = await names();
    const jobs = [job('q:default'), ...Array.from({ length: 20 }, () => job(`z:${randomId()}`))];
    const whole = await caller.post('/jobs/batch', { jobs });
    expect(whole.body).toMatchObject({ accepted: 0, rejected: 21 });
    const { body } = await caller.post('/jobs/batch', { jobs, atomic: false });
    expect(body).toMatchObject({ accepted: 1, rejected: 20 });
    expect(body.results[1].error.details[0].code).toBe('UNKNOWN_QUEUE');
    expect(await names()).toEqual(before);
  });

  it('one that an operator configured may be named', async () => {
    const caller = await queue.caller();
    const name = `q:${randomId()}`;
    expect((await caller.post('/jobs', job(name))).status).toBe(400);
    await configureQueue(queue.ledger.db.api, { name });
    await queue.engine.catalogue.refresh();
    expect((await caller.post('/jobs', job(name))).status).toBe(202);
  });
});

describe('in a program', () => {
  it('an unused name becomes a new queue, and the names of a batch are created together', async () => {
    const orgId = await queue.ledger.newOrg();
    const fresh = Array.from({ length: 50 }, () => `p:${randomId()}`);
    const statements = watchStatements();
    const submissions = [...fresh, ...fresh].map((name, index) => ({ ...job(name), timeout: `PT${(index % 9) + 1}M` }));
    const { accepted } = await submitMany(queue.engine, { orgId, submissions, atomic: true, actor: null });
    expect(accepted).toBe(100);
    expect(statements.filter((name) => name === 'introduce_queues')).toHaveLength(1);
    expect(statements.filter((name) => name === 'intern_policies')).toHaveLength(1);
    expect(await names()).toEqual(expect.arrayContaining(fresh));
  });

  it('there are at most a thousand, and one more is refused with what to do instead; standing ones never are', async () => {
    const { api } = queue.ledger.db;
    const mine = Array.from({ length: 5 }, () => `m:${randomId()}`);
    const there = (await names()).length;
    expect([...(await introduceQueues(api, [...mine, ...mine], there + 3))].sort()).toEqual(mine.slice(0, 3).sort());
    expect([...(await introduceQueues(api, mine, there + 3))].sort()).toEqual(mine.slice(0, 3).sort());

    await introduceQueues(
      api,
      Array.from({ length: 1_000 }, (_, index) => `full:${index}`),
    );
    expect(await names()).toHaveLength(1_000);
    const orgId = await queue.ledger.newOrg();
    const submit = (name: string) => submitJob(queue.engine, { orgId, submission: job(name), actor: null });
    const refusal = await submit(`m:${randomId()}`).catch((error) => error);
    expect(isAppError(refusal, 'QUOTA_EXCEEDED')).toBe(true);
    expect(refusal.quota).toMatchObject({ limit: 'queues', maximum: 1_000 });
    expect(refusal.message).toContain('tags');
    await api.query(`DELETE FROM millrace.queues WHERE name = 'q:planning'`);
    await api.query(`INSERT INTO millrace.queues (name) VALUES ('full:more') ON CONFLICT DO NOTHING`);
    await queue.engine.catalogue.refresh();
    expect((await submit('q:planning')).status).toBe('ACCEPTED');
    expect(await names()).toHaveLength(1_001);
  });
});
