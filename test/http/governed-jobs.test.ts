/** Governed submissions as callers meet them: a category, its rules and its keys. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { CATEGORY_NAMES } from '../../src/core/governance/categories.ts';
import { announceType } from '../../src/ledger/queues/job-types.ts';
import { until } from '../until.ts';
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

describe('GET /categories', () => {
  it('shows the five categories with their rules [AB-cat.01] [AB-accept.01]', async () => {
    const { status, body } = await (await queue.caller()).get('/categories');
    expect(status).toBe(200);
    const rest = {
      base_delay: 'PT5S',
      max_delay: 'PT5M',
      max_attempts: 5,
      key_window: 'P7D',
      scheduling_allowed: false,
      required_members: [],
    };
    expect(body).toEqual({
      items: [
        {
          ...rest,
          ...{ name: 'notification', queue: 'q:notifications', max_attempts: 10, max_delay: 'PT30M', scheduling_allowed: true },
          ...{ required_members: ['recipient', 'template'], capabilities: ['audit', 'jobs'] },
        },
        { ...rest, name: 'audit_enrichment', queue: 'q:default', capabilities: ['audit'] },
        {
          ...rest,
          ...{ name: 'planning', queue: 'q:planning', max_attempts: 3, max_delay: 'PT2M', key_window: 'P30D' },
          capabilities: ['audit', 'artifacts', 'assignments', 'jobs'],
        },
        {
          ...rest,
          ...{
            name: 'import_export',
            queue: 'q:exports',
            max_delay: 'PT10M',
            key_window: 'P30D',
            capabilities: ['audit', 'artifacts', 'jobs'],
          },
        },
        { ...rest, name: 'maintenance', queue: 'q:maintenance', scheduling_allowed: true, capabilities: ['audit', 'jobs'] },
      ],
      next_cursor: null,
    });
  });

  it('needs a key that may read jobs', async () => {
    expect((await queue.nobody().get('/categories')).status).toBe(401);
    expect((await (await (await queue.caller()).with('jobs:cancel')).get('/categories')).status).toBe(403);
  });
});

describe('a governed job', () => {
  it.each([
    ['notification', 'q:notifications', 10],
    ['audit_enrichment', 'q:default', 5],
    ['planning', 'q:planning', 3],
    ['import_export', 'q:exports', 5],
    ['maintenance', 'q:maintenance', 5],
  ])(
    'of the category %s waits in %s and has %i attempts [AB-contract.01] [AB-contract.02] [AB-contract.10] [AB-queue.09..15]',
    async (category, home, attempts) => {
      const caller = await queue.caller();
      const { status, body } = await caller.post('/jobs', governed(category));
      expect(status).toBe(202);
      const job = (await caller.get(`/jobs/${body.job_id}`)).body;
      expect(job).toMatchObject({ category, queue: home, max_attempts: attempts, type: TYPE, idempotency_key: body.idempotency_key });
      expect(job.request_id).toBe(job.correlation_id);
      expect(job.created_at).toMatch(/^\d{4}-.*Z$/);
    },
  );

  it('keeps what the submission says about queue and retries [AB-retry.01]', async () => {
    const caller = await queue.caller();
    const { body } = await caller.post('/jobs', governed('planning', { queue: 'q:exports', max_attempts: 9 }));
    expect((await caller.get(`/jobs/${body.job_id}`)).body).toMatchObject({ queue: 'q:exports', max_attempts: 9 });
  });

  it('has one of the five categories, which the refusal lists [AB-cat.01]', async () => {
    const caller = await queue.caller();
    for (const category of ['reports', 'Planning', 'notifications', '__proto__', 'constructor', '../planning', 'x'.repeat(10_000), 7, []])
      expect(await refusal(caller, governed(category as string))).toEqual(['category INVALID_VALUE']);
    const { body } = await caller.post('/jobs', governed('plannings'));
    for (const name of CATEGORY_NAMES) expect(body.details[0].message).toContain(name);
    expect(body.details[0].message).toContain('did you mean planning');
  });

  it('cannot name the queue of dead letters, and needs the scope for the critical one [AB-queue.08] [AB-queue.16]', async () => {
    const caller = await queue.caller();
    expect(await refusal(caller, governed('planning', { queue: 'q:deadletter' }))).toEqual(['queue INVALID_VALUE']);
    const plain = await caller.with('jobs:write', 'jobs:read');
    for (const more of [{ queue: 'q:critical' }, { priority: 'CRITICAL' }])
      expect((await plain.post('/jobs', governed('planning', more))).status).toBe(403);
    expect((await caller.post('/jobs', governed('planning', { queue: 'q:critical' }))).status).toBe(202);
  });

  it('cannot bring its own id, and its org must be that of the key [AB-contract.01] [AB-contract.03] [AB-sec.01] [AB-sec.02]', async () => {
    const caller = await queue.caller();
    expect(await refusal(caller, governed('planning', { job_id: randomUUID() }))).toEqual(['job_id READ_ONLY_MEMBER']);
    expect((await caller.post('/jobs', governed('planning', { org_id: randomUUID() }))).status).toBe(403);
  });

  it('needs a type that a worker registered at some time, in whatever process', async () => {
    const caller = await queue.caller();
    const type = `elsewhere-${randomId()}`;
    expect(await refusal(caller, governed('planning', { type }))).toEqual(['type UNKNOWN_TYPE']);
    expect((await caller.post('/jobs', { type, payload: {} })).status).toBe(202);
    // A type that an operator paused has a row, but no worker.
    await queue.engine.database.api.query('INSERT INTO millrace.job_types (name, paused_at, announced_at) VALUES ($1, now(), now())', [
      type,
    ]);
    expect(await refusal(caller, governed('planning', { type }))).toEqual(['type UNKNOWN_TYPE']);
    await announceType(queue.ledger.db.api, {
      name: type,
      defaults: {},
      concurrency: null,
      customBackoff: false,
      profile: queue.engine.profile,
    });
    await until(
      'the type is known',
      () => caller.post('/jobs', governed('planning', { type })),
      ({ status }) => status === 202,
    );
  });

  it('is refused in a batch without harm to the others', async () => {
    const caller = await queue.caller();
    const jobs = [
      governed('planning'),
      governed('gossip'),
      governed('notification', { payload: {} }),
      governed('planning', { payload: { token: 1 } }),
    ];
    const { body } = await caller.post('/jobs/batch', { jobs, atomic: false });
    expect(body.results.map(({ status }: { status: string }) => status)).toEqual(['ACCEPTED', 'REJECTED', 'REJECTED', 'REJECTED']);
    expect(body.results[0].idempotency_key).toMatch(new RegExp(`^${TYPE}:${caller.orgId}:`));
    expect(body.results.slice(1).map(({ error }: { error: { details: { code: string }[] } }) => error.details[0]?.code)).toEqual([
      ...['INVALID_VALUE', 'REQUIRED', 'SECRET_IN_PAYLOAD'],
    ]);
  });
});

describe('the payload of a governed job', () => {
  it('is an object, and bytes are refused [AB-contract.11] [AB-accept.02]', async () => {
    const caller = await queue.caller();
    for (const payload of [{ $bytes: 'AA==' }, [], 'text', 7, null])
      expect((await caller.post('/jobs', governed('planning', { payload }))).body.details[0].field).toBe('payload');
    expect((await caller.post('/jobs', { type: TYPE, payload: { $bytes: 'AA==' } })).status).toBe(202);
  });

  it('names a recipient and a template in a notification [AB-accept.02]', async () => {
    const caller = await queue.caller();
    expect(await refusal(caller, governed('notification', { payload: { template: 't' } }))).toEqual(['payload.recipient REQUIRED']);
    expect(await refusal(caller, governed('notification', { payload: {} }))).toHaveLength(2);
  });

  it('contains no secret, at any depth [AB-sec.05]', async () => {
    const caller = await queue.caller();
    const payload = { ...MAIL, 'X-Headers': [{ Authorization: 'Bearer abc' }], db: { PRIVATE_key: 'x' } };
    expect(await refusal(caller, governed('notification', { payload }))).toEqual([
      'payload.X-Headers[0].Authorization SECRET_IN_PAYLOAD',
      'payload.db.PRIVATE_key SECRET_IN_PAYLOAD',
    ]);
    // Without a category a payload is opaque.
    expect((await caller.post('/jobs', { type: TYPE, payload: { password: 'x' } })).status).toBe(202);
  });

  it('may have tens of thousands of members, and other requests are served meanwhile', async () => {
    const caller = await queue.caller();
    const many = Object.fromEntries(Array.from({ length: 60_000 }, (_, n) => [`m${n}`, n]));
    const [accepted, refused, read] = await Promise.all([
      caller.post('/jobs', governed('planning', { payload: many })),
      caller.post('/jobs', governed('planning', { payload: { ...many, m7: { passwd: 1 } } })),
      caller.get('/categories'),
    ]);
    expect([accepted.status, refused.status, read.status]).toEqual([202, 400, 200]);
    expect(refused.body.details).toMatchObject([{ field: 'payload.m7.passwd', code: 'SECRET_IN_PAYLOAD' }]);
    expect((await caller.post('/jobs', governed('planning', { payload: many }))).body.status).toBe('DUPLICATE');
  });
});
