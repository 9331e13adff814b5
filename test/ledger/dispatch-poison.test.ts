import { expect, onTestFinished, test } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { Dispatcher } from '../../src/engine/webhooks/dispatcher.ts';
import { checkDeliveries } from '../../src/ledger/webhooks/check-deliveries.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);

const setAside = (orgId: string) =>
  webhooks.sql<{ projection: string; seq: number; n: number; webhook_id: string | null; error: string }>(
    'SELECT projection, seq, n, webhook_id, error FROM millrace.set_aside WHERE org_id = $1 ORDER BY id',
    [orgId],
  );

test('an event that cannot be delivered is set aside and reported, and the events behind it are delivered', async () => {
  const orgId = await ledger.newOrg();
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  const before = await ledger.submitOne({ orgId });
  // JSON may hold this character and PostgreSQL's text may not, so reading the member fails for this job alone.
  const payload = { kind: 'json', text: '{"work_kind":"\\u0000"}' } as const;
  const type = 'forgerun.simulated';
  const poison = await ledger.submitOne({ orgId, job: { type, payload } });
  const after = await ledger.submitOne({ orgId });
  const events = new EventHub();
  const reported: unknown[] = [];
  onTestFinished(events.on('setAside', (facts) => reported.push(facts)));
  const dispatcher = new Dispatcher({ database: ledger.db, events, onQueued: () => {} });
  await until('both sound events are dispatched', async () => {
    await dispatcher.round();
    return (await webhooks.deliveries({ webhookId: id })).length >= 2;
  });
  expect((await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id)).toEqual([before.id, after.id]);
  expect(await setAside(orgId)).toMatchObject([{ projection: 'webhooks', seq: poison.seq, n: 1, webhook_id: null }]);
  expect(reported).toMatchObject([{ projection: 'webhooks', orgId, jobSeq: poison.seq }]);
  await webhooks.sql('DELETE FROM millrace.jobs WHERE id = $1', [poison.id]);
});

test('where one target refuses an event, the other targets get it', async () => {
  const orgId = await ledger.newOrg();
  const [bad, good] = [
    await webhooks.register(orgId, { events: ['job.created'] }),
    await webhooks.register(orgId, { events: ['job.created'] }),
  ];
  await webhooks.sql(`ALTER TABLE millrace.webhook_deliveries ADD CONSTRAINT refused CHECK (webhook_id <> '${bad}') NOT VALID`);
  onTestFinished(async () => {
    await webhooks.sql('ALTER TABLE millrace.webhook_deliveries DROP CONSTRAINT refused');
  });
  const jobs = [await ledger.submitOne({ orgId }), await ledger.submitOne({ orgId })];
  await webhooks.dispatch();
  expect((await webhooks.deliveries({ webhookId: good })).map(({ job_id }) => job_id)).toEqual(jobs.map(({ id }) => id));
  const aside = await setAside(orgId);
  expect(aside.map(({ seq, webhook_id }) => [seq, webhook_id])).toEqual(jobs.map(({ seq }) => [seq, bad]));
  // The checker reports the missing deliveries, since no one was told of these events.
  const found = (await checkDeliveries(ledger.db.maintenance)).filter((each) => each.orgId === orgId);
  expect(found.map(({ what }) => what)).toEqual(jobs.map(() => expect.stringContaining(`never queued for ${bad}`)));
});

test('a fault that is not of the data sets nothing aside', async () => {
  const orgId = await ledger.newOrg();
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  const dispatcher = new Dispatcher({ database: ledger.db, events: new EventHub(), onQueued: () => {} });
  await ledger.submitOne({ orgId });
  await webhooks.sql('ALTER TABLE millrace.webhook_deliveries RENAME TO deliveries_away');
  const round = async (): Promise<unknown> => {
    for (;;) await dispatcher.round();
  };
  const failure = await round().catch((error: unknown) => error);
  await webhooks.sql('ALTER TABLE millrace.deliveries_away RENAME TO webhook_deliveries');
  expect(String(failure)).toMatch(/webhook_deliveries/);
  await webhooks.dispatch();
  expect(await webhooks.events(id)).toEqual(['job.created']);
  expect(await setAside(orgId)).toEqual([]);
});
