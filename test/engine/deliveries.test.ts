import { describe, expect, test } from 'vitest';
import { messageIdOf } from '../../src/core/public-events.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { until } from '../until.ts';
import { answered, CALL_MS, failed, OK, useDeliveries } from './delivery-fixture.ts';

const { ledger, webhooks, run } = useDeliveries();
const settings = (maxRetries: number) => ({ timeoutMs: CALL_MS, maxRetries, backoff: { initialMs: 1, maxMs: 5 }, verifies: false });

const statesOf = async (webhookId: string) => (await webhooks.deliveries({ webhookId })).map(({ state }) => state);
const allEnded = async (webhookId: string, count: number) => {
  const states = await statesOf(webhookId);
  return states.length === count && states.every((state) => state === 'delivered' || state === 'failed');
};

const attemptsOf = (deliveryId: string) =>
  webhooks.sql<{ verdict: string; status: number | null; error_code: string | null; answer: string | null }>(
    'SELECT verdict, status, error_code, answer FROM millrace.webhook_attempts WHERE delivery_id = $1 ORDER BY n',
    [deliveryId],
  );

describe('the order of a lane', () => {
  test('100 events arrive in order, whatever fails on the way, one at a time and under one id each', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId);
    let turn = 0;
    let inFlight = 0;
    let most = 0;
    const received: string[] = [];
    await run({
      settings: settings(50),
      answer: async ({ messageId }) => {
        most = Math.max(most, ++inFlight);
        await new Promise((resolve) => setImmediate(resolve));
        inFlight--;
        if (++turn % 3 === 0) return turn % 2 === 0 ? answered(500) : failed('RESET');
        received.push(messageId);
        return OK;
      },
    });
    for (let count = 0; count < 20; count++) await ledger.putJob('completed', { orgId });
    await until('all 100 deliveries have ended', () => allEnded(id, 100));
    const expected = (await webhooks.deliveries({ webhookId: id })).map((delivery) => messageIdOf(delivery.id));
    expect(received).toEqual(expected);
    expect(most).toBe(1);
    expect(await webhooks.lane(id)).toMatchObject({
      delivered_total: 100,
      failures: 0,
      live_delivery: null,
      due_at: null,
    });
  });

  test('an event is overtaken only when its attempts are used up, and then it is failed [FR-14.58] [FR-14.59] [FR-17.06]', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId);
    const { sent, attempts } = await run({
      settings: settings(2),
      answer: ({ event }) => (event === 'job.created' ? answered(503, {}, '{"why":"busy","token":"abc"}') : OK),
    });
    await ledger.putJob('running', { orgId });
    await until('all four deliveries have ended', () => allEnded(id, 4));
    expect(sent.map(({ event }) => event)).toEqual([
      ...['job.created', 'job.created', 'job.created'],
      ...['job.queued', 'job.assigned', 'job.running'],
    ]);
    expect(new Set(sent.slice(0, 3).map(({ messageId }) => messageId)).size).toBe(1);
    const [first, ...others] = await webhooks.deliveries({ webhookId: id });
    expect([first?.state, ...others.map(({ state }) => state)]).toEqual(['failed', 'delivered', 'delivered', 'delivered']);
    const row = { verdict: 'retry', status: 503, error_code: 'HTTP_503', answer: '{"why":"busy","token":[masked]}' };
    expect(await attemptsOf(first?.id as string)).toEqual([row, row, row]);
    const told = () => attempts.map(({ attempt, verdict }) => `${attempt} ${verdict}`);
    await until('all attempts have been reported', told, [
      ...[1, 2, 3].map((n) => `${n} retry`),
      ...[1, 1, 1].map((n) => `${n} delivered`),
    ]);
    const jobs = `SELECT state FROM millrace.jobs WHERE job_type = 'webhook.deliver' AND payload->>'delivery_id' = $1 ORDER BY seq`;
    const states = async () => (await webhooks.sql<{ state: string }>(jobs, [first?.id])).map(({ state }) => state);
    await until('the three jobs have ended', async () => (await states()).join(), 'completed,completed,dead_letter');
  });
});

describe('an endpoint that cannot be reached', () => {
  test.each([
    ['a connection that fails [FR-14.52]', 'CONNECT'],
    ['a call over its time [FR-14.56]', 'TIMEOUT'],
  ])('%s is recorded and tried again', async (_, code) => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    let calls = 0;
    await run({ answer: () => (++calls <= 2 ? failed(code) : OK) });
    await ledger.submitOne({ orgId });
    await until('the delivery has ended', () => allEnded(id, 1));
    const [delivery] = await webhooks.deliveries({ webhookId: id });
    expect(delivery).toMatchObject({ state: 'delivered', attempts: 3 });
    const verdicts = (await attemptsOf(delivery?.id as string)).map(({ verdict, error_code }) => [verdict, error_code]);
    expect(verdicts).toEqual([
      ['retry', code],
      ['retry', code],
      ['delivered', null],
    ]);
  });

  test('never holds up the job, nor another endpoint [FR-14.53] [FR-14.57]', async () => {
    const orgId = await ledger.newOrg();
    const dead = await webhooks.register(orgId, { url: 'https://dead.example/' });
    const alive = await webhooks.register(orgId, { url: 'https://alive.example/' });
    const { engine } = await run({
      handlers: { quick: () => 'done' },
      answer: ({ url }, { signal }) =>
        url.includes('dead') ? new Promise((resolve) => signal.addEventListener('abort', () => resolve(failed('ABORTED')))) : OK,
    });
    const { jobId } = await submitJob(engine, { orgId, submission: { type: 'quick', payload: {} }, actor: null });
    const job = { orgId, id: jobId };
    await until('the job has completed', () => ledger.stateOf(job), 'completed');
    await until('all five deliveries have ended', () => allEnded(alive, 5));
    expect(await statesOf(dead)).toEqual(['live', 'queued', 'queued', 'queued', 'queued']);
  });

  test('an address that is refused fails at once and is not tried again', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const { sent } = await run({ answer: () => ({ kind: 'refused', code: 'ADDRESS', durationMs: 0 }) });
    await ledger.submitOne({ orgId });
    await until('the delivery has ended', () => allEnded(id, 1));
    const [delivery] = await webhooks.deliveries({ webhookId: id });
    expect(delivery).toMatchObject({ state: 'failed', attempts: 1 });
    expect(await attemptsOf(delivery?.id as string)).toMatchObject([{ verdict: 'failed', error_code: 'REFUSED_ADDRESS' }]);
    expect(sent).toHaveLength(1);
  });

  test('Retry-After puts the next attempt off', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const { attempts } = await run({ answer: () => answered(503, { 'retry-after': '3600' }) });
    await ledger.submitOne({ orgId });
    await until('the first attempt has been made', () => attempts.length, 1);
    const text = `SELECT extract(epoch FROM due_at - millrace.clock())::int4 AS wait FROM millrace.webhook_lanes WHERE webhook_id = $1`;
    const [lane] = await webhooks.sql<{ wait: number }>(text, [id]);
    expect(lane?.wait).toBeGreaterThan(3_500);
  });
});
