/** When governed jobs may start, and the keys that make their repeats the same job. */
import { describe, expect, it } from 'vitest';
import { newProject } from '../ledger/new-project.ts';
import { type Caller, randomId, useQueue } from './queue-fixture.ts';

const TYPE = 'governed';
const queue = useQueue({ type: TYPE, handler: async () => null });

const MAIL = { recipient: 'ada@example.com', template: 'welcome' };
const governed = (category: string, more: object = {}) => ({ type: TYPE, category, payload: { ...MAIL, id: randomId() }, ...more });

async function refusal(caller: Caller, submission: object): Promise<unknown> {
  const { status, body } = await caller.post('/jobs', submission);
  expect([status, body.code]).toEqual([400, 'INVALID_REQUEST']);
  return body.details.map(({ field, code }: { field: string; code: string }) => `${field} ${code}`);
}

describe('the time of a governed job', () => {
  const later = () => new Date(Date.now() + 3_600_000).toISOString();

  it('is only for maintenance and notifications [AB-sched.01] [AB-sched.02]', async () => {
    const caller = await queue.caller();
    for (const category of ['planning', 'import_export', 'audit_enrichment']) {
      expect(await refusal(caller, governed(category, { scheduled_for: later() }))).toEqual(['scheduled_for SCHEDULING_NOT_ALLOWED']);
      expect(await refusal(caller, governed(category, { delay: 'PT5M' }))).toEqual(['delay SCHEDULING_NOT_ALLOWED']);
    }
    for (const category of ['maintenance', 'notification']) {
      const { status, body } = await caller.post('/jobs', governed(category, { scheduled_for: later() }));
      expect([status, body.state]).toEqual([202, 'DELAYED']);
    }
  });

  it('of a delayed notification leaves it in the queue of notifications [AB-queue.10] [AB-queue.13]', async () => {
    const caller = await queue.caller();
    for (const [category, home] of [
      ['notification', 'q:notifications'],
      ['maintenance', 'q:maintenance'],
    ] as const) {
      const jobId = await caller.submit(governed(category, { delay: 'PT1H' }));
      expect((await caller.get(`/jobs/${jobId}`)).body).toMatchObject({ state: 'DELAYED', queue: home });
    }
  });

  it('is scheduled_for or scheduled_at, which are the same [AB-contract.12]', async () => {
    const caller = await queue.caller();
    const at = later();
    const [one, other] = [{ scheduled_for: at }, { scheduled_at: at, scheduled_for: null }];
    for (const time of [one, other, { scheduled_for: at, scheduled_at: null }])
      expect((await caller.post('/jobs', { type: TYPE, payload: {}, ...time })).body.scheduled_for).toBe(at);
    const key = { idempotency_key: randomId(), payload: MAIL };
    expect((await caller.post('/jobs', governed('maintenance', { ...one, ...key }))).status).toBe(202);
    expect((await caller.post('/jobs', governed('maintenance', { ...other, ...key }))).body.status).toBe('DUPLICATE');
    expect(await refusal(caller, governed('maintenance', { scheduled_for: at, scheduled_at: at }))).toEqual([
      'scheduled_for CONFLICTING_MEMBERS',
    ]);
    expect(await refusal(caller, { type: TYPE, payload: {}, scheduled_for: 'soon' })).toEqual(['scheduled_for INVALID_TIMESTAMP']);
  });

  it('is refused when it is more than 60 seconds ago [AB-sched.03]', async () => {
    const caller = await queue.caller();
    const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
    expect(await refusal(caller, governed('maintenance', { scheduled_for: ago(300_000) }))).toEqual(['scheduled_for OUT_OF_RANGE']);
    expect((await caller.post('/jobs', governed('maintenance', { scheduled_for: ago(1_000) }))).status).toBe(202);
    expect((await caller.post('/jobs', { type: TYPE, payload: {}, scheduled_for: ago(300_000) })).status).toBe(202);
  });

  it('of a schedule follows the same rule, and each run is a job of its own [AB-sched.01]', async () => {
    const caller = await queue.caller();
    const nightly = { cron: '30 2 * * *', type: TYPE, payload: { a: 1 } };
    const refused = await caller.post('/schedules', { key: 'p', ...nightly, category: 'planning' });
    expect([refused.status, refused.body.details[0].code]).toEqual([400, 'SCHEDULING_NOT_ALLOWED']);
    expect((await caller.post('/schedules', { key: 'm', ...nightly, category: 'maintenance' })).status).toBe(201);
    const [one, two] = [await caller.post('/schedules/m/run'), await caller.post('/schedules/m/run')];
    expect(one.body.job_id).not.toBe(two.body.job_id);
  });
});

describe('a derived key', () => {
  it('makes a repeat the same job, and shows itself in the first answer [AB-idem.01] [AB-idem.02] [AB-idem.06] [AB-accept.04]', async () => {
    const caller = await queue.caller();
    const first = await caller.post('/jobs', governed('planning', { payload: { b: [1, { y: 1, x: 2 }], at: '2024-01-15T10:30:00Z' } }));
    expect(first.status).toBe(202);
    expect(first.body.idempotency_key).toMatch(new RegExp(`^${TYPE}:${caller.orgId}:[0-9a-f]{64}$`));
    const same = { payload: { at: '2024-01-15T11:30:00.000+01:00', b: [1, { x: 2, y: 1 }] }, tags: { again: 'yes' }, priority: 'HIGH' };
    const again = await caller.post('/jobs', governed('planning', same));
    expect([again.status, again.body]).toEqual([
      200,
      expect.objectContaining({ status: 'DUPLICATE', job_id: first.body.job_id, idempotency_key: first.body.idempotency_key }),
    ]);
    const echoed = governed('planning', { ...same, idempotency_key: first.body.idempotency_key });
    expect((await caller.post('/jobs', echoed)).body).toMatchObject({ status: 'DUPLICATE', job_id: first.body.job_id });
  });

  it('belongs to one org and one project [AB-idem.03] [AB-idem.04]', async () => {
    const [caller, stranger] = [await queue.caller(), await queue.caller()];
    const job = governed('planning', { payload: { same: true } });
    const inProject = { ...job, project_id: await newProject(queue.ledger.db, caller.orgId) };
    const answers = [await caller.post('/jobs', job), await stranger.post('/jobs', job), await caller.post('/jobs', inProject)];
    expect(answers.map(({ body }) => body.status)).toEqual(['ACCEPTED', 'ACCEPTED', 'ACCEPTED']);
    expect(answers[2]?.body.idempotency_key).toContain(`:${inProject.project_id}:`);
    expect((await caller.post('/jobs', inProject)).body.status).toBe('DUPLICATE');
  });

  it('makes one notification of two that are equal, and two of any that differ [AB-cat.04]', async () => {
    const caller = await queue.caller();
    const at = '2030-01-01T00:00:10Z';
    const mail = (payload: object, scheduled_for = at) =>
      caller.post('/jobs', governed('notification', { payload: { ...MAIL, ...payload }, scheduled_for, lifetime: 'P3650D' }));
    const answers = [
      await mail({}),
      await mail({}, '2030-01-01T00:00:50Z'),
      await mail({ recipient: 'bob' }),
      await mail({ template: 'bye' }),
    ];
    answers.push(await mail({ name: 'x' }), await mail({}, '2030-01-01T00:01:00Z'));
    const words = ['ACCEPTED', 'DUPLICATE', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'ACCEPTED'];
    expect(answers.map(({ body }) => body.status)).toEqual(words);
  });

  it('makes one job of many submissions at the same time', async () => {
    const caller = await queue.caller();
    const job = governed('import_export');
    const answers = await Promise.all(Array.from({ length: 20 }, () => caller.post('/jobs', job)));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect(answers.filter(({ status, body }) => status === 200 && body.status === 'DUPLICATE')).toHaveLength(19);
  });

  it('holds for the key window of its category [AB-idem.14] [AB-idem.15]', async () => {
    const caller = await queue.caller();
    for (const [category, days] of [
      ['planning', 30],
      ['maintenance', 7],
    ] as const) {
      const { body } = await caller.post('/jobs', governed(category));
      const { rows } = await queue.ledger.db.api.query(
        `SELECT extract(epoch FROM expires_at - millrace.clock()) / 86400 AS days FROM millrace.idempotency_keys WHERE org_id = $1 AND key = $2`,
        [caller.orgId, body.idempotency_key],
      );
      expect(Math.round(Number(rows[0].days))).toBe(days);
    }
  });

  it('does not exist for a job without a category', async () => {
    const caller = await queue.caller();
    const job = { type: TYPE, payload: { same: true } };
    const answers = [await caller.post('/jobs', job), await caller.post('/jobs', job)];
    expect(answers.map(({ body }) => [body.status, body.idempotency_key])).toEqual([
      ['ACCEPTED', undefined],
      ['ACCEPTED', undefined],
    ]);
  });
});
