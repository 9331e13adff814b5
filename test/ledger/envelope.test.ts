import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Envelope } from '../../src/core/envelope.ts';
import { wholeOrg } from '../../src/core/owner.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const DAY = 86_400_000;

const envelope = (more: Partial<Envelope> = {}): Envelope => ({
  category: 'maintenance',
  projectId: randomUUID(),
  traceparent: `00-${randomUUID().replaceAll('-', '')}-00f067aa0ba902b7-01`,
  requestId: `r-${randomUUID()}`,
  ...more,
});

/** Writes jobs with these envelopes in one statement and answers them as they are read. */
async function written(envelopes: readonly (Envelope | null)[], options: { type?: string; queue?: string; key?: true }) {
  const orgId = await ledger.newOrg();
  const { type, queue = 'q:default' } = options;
  const entries = [];
  for (const [index, each] of envelopes.entries()) {
    const keyed = options.key === undefined ? {} : { idempotencyKey: `k-${index}`, fingerprint: 'f' };
    entries.push(await ledger.toWrite(orgId, { type, job: { envelope: each, queue, ...keyed } }));
  }
  await submitJobs(ledger.db.api, entries);
  return Promise.all(entries.map(({ id }) => getJob(ledger.db.api, wholeOrg(orgId), id)));
}

test.each([
  ['of one kind', { type: 'same' }],
  ['of many types', {}],
  ['with keys', { key: true }],
  ['in a fair queue', { queue: 'q:fair' }],
  ['with keys in a fair queue', { queue: 'q:fair', key: true }],
] as const)('jobs %s keep what they came with, each its own [AB-contract.04] [AB-contract.07] [AB-contract.13]', async (_, kind) => {
  await ledger.db.api.query(`INSERT INTO millrace.queues (name, claim_order) VALUES ('q:fair', 'fair') ON CONFLICT DO NOTHING`);
  const shared = { category: 'maintenance', projectId: randomUUID() };
  for (const given of [
    [envelope(shared), envelope(shared), envelope(shared)],
    [envelope(), null, envelope({ requestId: null, projectId: null })],
  ]) {
    const jobs = await written(given, kind);
    for (const [index, job] of jobs.entries()) {
      const none = { category: null, projectId: null, traceparent: null };
      const { requestId, ...rest } = given[index] ?? { ...none, requestId: null };
      const expected = { requestId: requestId ?? job?.id, correlationId: requestId ?? job?.id };
      expect(job).toMatchObject({ ...rest, ...expected });
    }
  }
});

test('a key of a project is removed with its job', async () => {
  const orgId = await ledger.newOrg();
  const keys = async () => (await ledger.db.api.query('SELECT key FROM millrace.idempotency_keys WHERE org_id = $1', [orgId])).rows.length;
  await ledger.putJob('completed', {
    ...{ orgId, policy: { retentionMs: DAY, keyWindowMs: 90 * DAY } },
    job: { idempotencyKey: 'k', fingerprint: 'f', envelope: envelope() },
  });
  expect(await keys()).toBe(1);
  await ledger.moveClock(2 * DAY);
  await ledger.prune();
  expect(await keys()).toBe(0);
});

test('the statement of a plain job knows nothing of envelopes', async () => {
  const orgId = await ledger.newOrg();
  const texts: string[] = [];
  const db = {
    query: (config: { text: string }) => {
      texts.push(config.text);
      return ledger.db.api.query(config);
    },
  };
  for (const type of [undefined, 'same']) {
    const entries = [await ledger.toWrite(orgId, { type }), await ledger.toWrite(orgId, { type })];
    await submitJobs(db as never, entries);
  }
  expect(texts).toHaveLength(2);
  for (const text of texts) expect(text).not.toContain('traceparent');
});
