import { describe, expect, test } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { ensureCallbackOrg } from '../../src/ledger/webhooks/callback-orgs.ts';
import { dispatchEvents } from '../../src/ledger/webhooks/dispatch-events.ts';
import { until } from '../until.ts';
import { type SubmitOverrides, useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const CALLBACK = 'https://example.com/callback';

const withCallback = (orgId: string, more: SubmitOverrides = {}): SubmitOverrides => ({
  orgId,
  ...more,
  job: { callbackUrl: CALLBACK, ...more.job },
});

describe('a registered webhook', () => {
  test('hears of every event of its org from its registration on, in order, once', async () => {
    const orgId = await ledger.newOrg();
    await ledger.putJob('completed', { orgId });
    const id = await webhooks.register(orgId);
    const foreign = await webhooks.register(await ledger.newOrg());
    const job = await ledger.putJob('completed', { orgId });
    await webhooks.dispatch();
    await webhooks.dispatch();
    const told = await webhooks.deliveries({ webhookId: id });
    expect(told.map(({ event }) => event)).toEqual(['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded']);
    expect(told.every(({ job_id, state }) => job_id === job.id && state === 'queued')).toBe(true);
    expect(await webhooks.events(foreign)).toEqual([]);
  });

  test('receives the events it asked for and no others', async () => {
    const orgId = await ledger.newOrg();
    const ends = await webhooks.register(orgId, { events: ['job.succeeded', 'job.failed_final'] });
    const starts = await webhooks.register(orgId, { events: ['job.running'] });
    await ledger.putJob('completed', { orgId });
    await ledger.putJob('dead_letter', { orgId });
    await ledger.putJob('retrying', { orgId });
    await webhooks.dispatch();
    expect(await webhooks.events(ends)).toEqual(['job.succeeded', 'job.failed_final']);
    expect(await webhooks.events(starts)).toEqual(['job.running', 'job.running', 'job.running']);
  });

  test('receives the kind of a failure, and never its message, payload, result or tags', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.failed', 'job.failed_final'] });
    const payload = { kind: 'json', text: '{"card":"4711-secret"}' } as const;
    await ledger.putJob('failed', { orgId, job: { payload, tags: { who: 'tag-secret' } } });
    await webhooks.dispatch();
    const [told] = await webhooks.deliveries({ webhookId: id });
    expect(told?.data).toMatchObject({
      error: { category: 'TEMPORARY', code: 'BOOM' },
      outcome: 'FAILED',
      state: 'FAILED',
    });
    expect(JSON.stringify(told)).not.toMatch(/it broke|4711-secret|tag-secret/);
  });

  test('receives nothing about jobs whose profile sends no events', async () => {
    const orgId = await ledger.newOrg();
    await webhooks.register(orgId);
    await ensureCallbackOrg(ledger.db.api, orgId);
    await ledger.putJob('completed', withCallback(orgId, { policy: { profile: 'fetchbox' } }));
    await webhooks.dispatch();
    expect(await webhooks.deliveries({ orgId })).toEqual([]);
  });
});

describe('a callback', () => {
  test('receives each end once, and again after a manual retry [GA-1.16] [GM-10.14]', async () => {
    const orgId = await ledger.newOrg();
    await ensureCallbackOrg(ledger.db.api, orgId);
    const job = await ledger.putJob('dead_letter', withCallback(orgId));
    await ledger.putJob('completed', { orgId });
    await webhooks.dispatch();
    const id = (await webhooks.callbackOf(orgId)) as string;
    expect(await webhooks.events(id)).toEqual(['job.failed_final']);
    await retryJob(ledger.db.api, { ...job, resetAttempts: true, priority: null, delayMs: null, actor: null });
    await ledger.settle(await ledger.start(job), { to: 'completed', reason: 'succeeded' });
    await webhooks.dispatch();
    const told = await webhooks.deliveries({ webhookId: id });
    expect(told.map(({ event, data }) => [event, data.state])).toEqual([
      ['job.failed_final', 'DEAD_LETTER'],
      ['job.succeeded', 'COMPLETED'],
    ]);
    expect(await webhooks.callbackOf(orgId)).toBe(id);
  });

  test('of the execution API receives each change of state [FR-07.03]', async () => {
    const orgId = await ledger.newOrg();
    await ensureCallbackOrg(ledger.db.api, orgId);
    const payload = { kind: 'json', text: '{"type":"EMIT_EVENT","work_kind":"SUCCESS_FAST"}' } as const;
    const policy = { ...PROFILES.forgerun };
    await ledger.putJob(
      'completed',
      withCallback(orgId, { type: 'forgerun.simulated', policy, job: { policy, payload, type: 'forgerun.simulated' } }),
    );
    await webhooks.dispatch();
    const told = await webhooks.deliveries({ webhookId: (await webhooks.callbackOf(orgId)) as string });
    expect(told.map(({ data }) => [data.event_name, data.prev_state, data.next_state])).toEqual([
      ['job.created', null, 'CREATED'],
      ['job.queued', 'CREATED', 'QUEUED'],
      ['job.assigned', 'QUEUED', 'ASSIGNED'],
      ['job.running', 'ASSIGNED', 'RUNNING'],
      ['job.succeeded', 'RUNNING', 'SUCCEEDED'],
      ['job.event_emitted', 'SUCCEEDED', 'SUCCEEDED'],
    ]);
    expect(told.every(({ data }) => data.scenario === 'SUCCESS_FAST' && data.job_type === 'EMIT_EVENT')).toBe(true);
  });
});

describe('the order of events', () => {
  test('an event that commits after later ones is delivered, and nothing is passed over', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const slow = await ledger.db.workers.connect();
    try {
      await slow.query('BEGIN');
      const late = await ledger.submitOneOn(slow, { orgId });
      const quick = await ledger.submitOne({ orgId });
      await dispatchEvents(ledger.db.maintenance);
      expect(await webhooks.deliveries({ webhookId: id })).toEqual([]);
      await slow.query('COMMIT');
      await webhooks.dispatch();
      expect((await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id)).toEqual([late.id, quick.id]);
    } finally {
      slow.release(true);
    }
  });

  test('a transaction of the rollup writer, which writes no event, holds none back', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const projecting = await ledger.db.projecting.connect();
    try {
      await projecting.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_current_xact_id()');
      const job = await ledger.submitOne({ orgId });
      await webhooks.dispatch();
      expect((await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id)).toEqual([job.id]);
    } finally {
      projecting.release(true);
    }
  });

  test('two transactions that change a job in the other order than that of their numbers', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId);
    const first = await ledger.db.workers.connect();
    try {
      await first.query('BEGIN');
      // It has its number now, and changes the job only after the second one has.
      await first.query('SELECT pg_current_xact_id()');
      const job = await ledger.submitOne({ orgId });
      await first.query(`SELECT * FROM millrace.jobs WHERE id = $1 FOR UPDATE`, [job.id]);
      const text = `WITH told AS (INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs, ns)
        SELECT nextval('millrace.record_id'), millrace.clock(), org_id, 'scheduled', 'cancelled', priority, job_type, 'cancelled', ARRAY[seq], ARRAY[2]
        FROM millrace.jobs WHERE id = $1 RETURNING id)
        UPDATE millrace.jobs SET state = 'cancelled', completed_at = millrace.clock(), event_count = 2, record_ids = record_ids || (SELECT id FROM told)
        WHERE id = $1`;
      await first.query(text, [job.id]);
      await first.query('COMMIT');
      // A record a round: the earlier number holds the later event.
      await until('all three events are dispatched', async () => {
        await dispatchEvents(ledger.db.maintenance, { records: 1 });
        return (await webhooks.events(id)).length >= 3;
      });
      expect(await webhooks.events(id)).toEqual(['job.created', 'job.queued', 'job.canceled']);
    } finally {
      first.release(true);
    }
  });

  test('dispatchers that work at the same time make no delivery twice and lose none', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    for (let count = 0; count < 40; count++) await ledger.submitOne({ orgId });
    await Promise.all([1, 2, 3, 4].map(() => dispatchEvents(ledger.db.maintenance, { records: 3 })));
    await Promise.all([1, 2, 3, 4].map(() => dispatchEvents(ledger.db.maintenance, { records: 7 })));
    await webhooks.dispatch();
    const ids = (await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id);
    expect(ids).toHaveLength(40);
    expect(new Set(ids).size).toBe(40);
  });
});

test('where an org has no target nothing is written for it, and reading goes on behind it', async () => {
  const orgId = await ledger.newOrg();
  await ledger.putJob('completed', { orgId });
  await webhooks.dispatch();
  expect(await webhooks.deliveries({ orgId })).toEqual([]);
  const id = await webhooks.register(orgId, { events: ['job.succeeded'] });
  await ledger.putJob('completed', { orgId });
  await webhooks.dispatch();
  expect(await webhooks.events(id)).toEqual(['job.succeeded']);
});
