import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { ensureCallbackOrg } from '../../src/ledger/webhooks/callback-orgs.ts';
import { checkDeliveries } from '../../src/ledger/webhooks/check-deliveries.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const policy = { retentionMs: 0 };

const prune = () => ledger.prune();
const exists = async (job: TestJob) => (await getJob(ledger.db.api, wholeOrg(job.orgId), job.id)) !== null;

test('a job stays until its end was queued for the webhooks of its org, and goes then', async () => {
  const orgId = await ledger.newOrg();
  const webhookId = await webhooks.register(orgId, { events: ['job.succeeded'] });
  const job = await ledger.putJob('completed', { orgId, policy });
  expect((await prune()).jobs).toBe(0);
  expect(await exists(job)).toBe(true);
  await webhooks.dispatch();
  expect((await prune()).jobs).toBe(1);
  expect(await exists(job)).toBe(false);
  expect(await webhooks.events(webhookId)).toEqual(['job.succeeded']);
});

test('a job stays until its end was queued for its callback', async () => {
  const orgId = await ledger.newOrg();
  await ensureCallbackOrg(ledger.db.api, orgId);
  const job = await ledger.putJob('cancelled', { orgId, policy, job: { callbackUrl: 'https://example.com/back' } });
  await prune();
  expect(await exists(job)).toBe(true);
  await webhooks.dispatch();
  await prune();
  expect(await exists(job)).toBe(false);
  expect(await webhooks.deliveries({ orgId })).toHaveLength(1);
});

test('a job of an org without webhooks does not wait for the dispatcher', async () => {
  const orgId = await ledger.newOrg();
  const webhookId = await webhooks.register(orgId);
  await webhooks.sql('UPDATE millrace.webhooks SET deleted_at = now() WHERE id = $1', [webhookId]);
  const jobs = [await ledger.putJob('failed', { orgId, policy }), await ledger.putJob('failed', { policy })];
  await prune();
  expect(await Promise.all(jobs.map(exists))).toEqual([false, false]);
});

test('the checker finds a job that went before its events were queued', async () => {
  const orgId = await ledger.newOrg();
  await webhooks.register(orgId);
  const job = await ledger.putJob('completed', { orgId, policy });
  const found = async () => (await checkDeliveries(ledger.db.maintenance)).filter((each) => each.orgId === orgId);
  expect(await found()).toEqual([]);
  await webhooks.sql('DELETE FROM millrace.jobs WHERE org_id = $1', [orgId]);
  const whats = ['scheduled', 'running', 'completed'].map((state) => `was removed before its change to ${state} was dispatched`);
  const jobId = `number ${job.seq}`;
  expect(await found()).toEqual(expect.arrayContaining(whats.map((what) => ({ invariant: 'I7', orgId, jobId, what }))));
});
