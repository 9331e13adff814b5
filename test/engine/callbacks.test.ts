import { expect, test } from 'vitest';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { updateJob } from '../../src/services/jobs/update-job.ts';
import { until } from '../until.ts';
import { useDeliveries } from './delivery-fixture.ts';

const { ledger, webhooks, run } = useDeliveries();
const URL = 'https://example.com/callback';

test('a job with a callback sends it, signed with the secret of its org [GA-1.16] [GM-10.14]', async () => {
  const orgId = await ledger.newOrg();
  const signed: (string | undefined)[] = [];
  const { engine, sent } = await run({
    handlers: { quick: () => 'done' },
    answer: (_, { headers }) => {
      signed.push(headers['webhook-signature']);
      return { kind: 'answered', status: 204, headers: {}, body: new Uint8Array(), durationMs: 1 };
    },
  });
  await submitJob(engine, { orgId, submission: { type: 'quick', payload: {}, callbackUrl: URL }, actor: null });
  await submitJob(engine, { orgId, submission: { type: 'quick', payload: {} }, actor: null });
  await until('the callback has been sent', () => sent.length, 1);
  expect(sent).toMatchObject([{ url: URL, event: 'job.succeeded' }]);
  expect(signed).toEqual([expect.stringMatching(/^v1,/)]);
  const id = (await webhooks.callbackOf(orgId)) as string;
  await until('the callback has been counted as delivered', async () => (await webhooks.lane(id)).delivered_total, 1);
  expect(await webhooks.events(id)).toEqual(['job.succeeded']);
});

test('a callback that is given to a job later counts from then on', async () => {
  const orgId = await ledger.newOrg();
  const { engine, sent } = await run({ handlers: { quick: () => 'done' } });
  const { jobId } = await submitJob(engine, {
    orgId,
    submission: { type: 'quick', payload: {}, delay: '1h' },
    actor: null,
  });
  await updateJob(engine, { projectId: null, orgId, id: jobId, update: { callbackUrl: URL } });
  // The timer last: one that is due before its job counts as outdated.
  await webhooks.sql(`UPDATE millrace.jobs SET run_at = millrace.clock() WHERE org_id = $1`, [orgId]);
  await webhooks.sql(`UPDATE millrace.timers SET run_at = millrace.clock() WHERE org_id = $1`, [orgId]);
  engine.hint('timers');
  await until('the callback has been sent', () => sent.length, 1);
  expect(sent).toMatchObject([{ url: URL, event: 'job.succeeded', jobId }]);
});

test('a callback of the execution API hears of each change, and of what its job emits [FR-07.03]', async () => {
  const orgId = await ledger.newOrg();
  const { engine, sent } = await run({ handlers: { [EXECUTION_TYPE]: () => 'done' } });
  const payload = { type: 'EMIT_EVENT', work_kind: 'SUCCESS_FAST' };
  const submission = { type: EXECUTION_TYPE, payload, callbackUrl: URL };
  await submitJob(engine, { orgId, submission, actor: null, terms: { profile: PROFILES.forgerun } });
  await until('six callbacks have been sent', () => sent.length, 6);
  expect(sent.map(({ event }) => event)).toEqual([
    ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded', 'job.event_emitted'],
  ]);
});
