import { describe, expect, test } from 'vitest';
import { until } from '../until.ts';
import { answered, failed, OK, type Sent, useDeliveries } from './delivery-fixture.ts';

const { ledger, webhooks, run } = useDeliveries();

type AttemptRow = { n: number; verdict: string; status: number | null; error_code: string | null };

const attemptsOf = (webhookId: string) =>
  webhooks.sql<AttemptRow>(
    `SELECT a.n, a.verdict, a.status, a.error_code FROM millrace.webhook_attempts a
     JOIN millrace.webhook_deliveries d ON d.id = a.delivery_id WHERE d.webhook_id = $1 ORDER BY d.position, a.n`,
    [webhookId],
  );
const statesOf = async (webhookId: string) => (await webhooks.deliveries({ webhookId })).map(({ state }) => state);

/** The first insert of an attempt fails as if another transaction were in the way. */
async function refuseOnce(): Promise<void> {
  await webhooks.sql('CREATE SEQUENCE refusals');
  await webhooks.sql(`CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'in the way' USING ERRCODE = 'lock_not_available'; END IF;
    RETURN NEW;
  END $$`);
  await webhooks.sql(`CREATE TRIGGER refuse BEFORE INSERT ON millrace.webhook_attempts EXECUTE FUNCTION refuse_once()`);
}

describe('an attempt that does not come to its end', () => {
  test('because its process stops is on the list, and counts for nothing against the endpoint', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const hanging: Sent[] = [];
    const first = await run({
      answer: (sent, { signal }) => {
        hanging.push(sent);
        return new Promise((resolve) => signal.addEventListener('abort', () => resolve(failed('ABORTED'))));
      },
    });
    await ledger.submitOne({ orgId });
    await until('one attempt hangs', () => hanging.length, 1);
    for (const service of first.services) await service.stop();
    await first.engine.close(0);
    const { sent, attempts } = await run();
    await until('the event has been delivered', async () => (await statesOf(id)).join(), 'delivered');
    expect(sent.map(({ messageId }) => messageId)).toEqual(hanging.map(({ messageId }) => messageId));
    expect(await attemptsOf(id)).toEqual([
      { n: 1, verdict: 'interrupted', status: null, error_code: 'WORKER_STOPPED' },
      { n: 2, verdict: 'delivered', status: 200, error_code: null },
    ]);
    const told = () => attempts.map(({ attempt, verdict }) => [attempt, verdict]);
    await until('the second attempt has been reported', told, [[2, 'delivered']]);
    expect(await webhooks.lane(id)).toMatchObject({ attempts_total: 2, failures_total: 0, delivered_total: 1 });
  });

  test('because its worker was declared dead is on the list once, with the attempts that ended', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    // As a rescuer ends it: by the lease, in the name of nobody, with the job ready again.
    const rescue = `WITH ended AS (
      UPDATE millrace.jobs SET state = 'retrying', run_at = millrace.clock(), worker_id = NULL, event_count = event_count + 1,
        record_ids = record_ids || nextval('millrace.record_id'), lease_seq = nextval('millrace.lease_seq')
      WHERE id = (SELECT live_job FROM millrace.webhook_lanes WHERE webhook_id = $1) RETURNING *
    ), recorded AS (
      INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs, ns, lease_seqs, attempts)
      SELECT record_ids[cardinality(record_ids)], millrace.clock(), org_id, 'running', 'retrying', priority, job_type, 'worker_lost',
        ARRAY[seq], ARRAY[event_count], ARRAY[started_lease_seq], ARRAY[attempts_started::int2] FROM ended
    ) INSERT INTO millrace.timers (run_at, seq, org_id) SELECT run_at, seq, org_id FROM ended`;
    let calls = 0;
    await run({
      answer: async () => {
        calls++;
        if (calls === 2) await webhooks.sql(rescue, [id]);
        return calls < 4 ? answered(500) : OK;
      },
    });
    await ledger.submitOne({ orgId });
    await until('the event has been delivered', async () => (await statesOf(id)).join(), 'delivered');
    expect((await attemptsOf(id)).map(({ n, verdict, error_code }) => [n, verdict, error_code])).toEqual([
      [1, 'retry', 'HTTP_500'],
      [2, 'interrupted', 'WORKER_LOST'],
      [3, 'retry', 'HTTP_500'],
      [4, 'delivered', null],
    ]);
    expect(await webhooks.deliveries({ webhookId: id })).toMatchObject([{ attempts: 4 }]);
  });

  test('because the database does not take its outcome at first is written, and not made again', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    await refuseOnce();
    const { sent } = await run();
    await ledger.submitOne({ orgId });
    await until('the event has been delivered', async () => (await statesOf(id)).join(), 'delivered');
    expect(sent).toHaveLength(1);
    expect(await attemptsOf(id)).toEqual([{ n: 1, verdict: 'delivered', status: 200, error_code: null }]);
  });
});
