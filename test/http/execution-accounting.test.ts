import { describe, expect, it } from 'vitest';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { EXECUTION_STATES, type ExecutionState, isAllowed } from '../../src/core/execution/states.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { at, type Event, isChain } from './execution-work.ts';

const server = useExecution();
const HOUR = 3_600_000;
const FINAL = ['SUCCEEDED', 'FAILED', 'CANCELED'];

const REQUESTS = [
  { work_kind: 'SUCCESS_FAST' },
  { work_kind: 'FAIL_IMMEDIATE' },
  { work_kind: 'FAIL_AFTER_PROGRESS' },
  { work_kind: 'RETRY_ON_FAIL' },
  { work_kind: 'CANCEL_DURING_RUN' },
  { type: 'EMIT_EVENT', work_kind: 'PAYLOAD_SMALL' },
];

/** Submits a job and does things to it at once that get into each other's way. */
async function muddle(client: TestClient, n: number): Promise<string> {
  const deferred = n % 7 === 0 ? { type: 'DEFERRED', execution_at: at(HOUR) } : {};
  const id = await client.submit({ ...REQUESTS[n % REQUESTS.length], ...deferred });
  const actions = ['cancel', 'retry', 'retry', 'cancel'].slice(n % 3);
  await Promise.all(actions.slice(0, n % 4).map((action) => client.post(`/jobs/${id}/${action}`)));
  return id;
}

/** The same once more when the job has ended. */
async function muddleAgain(client: TestClient, id: string): Promise<void> {
  await client.reached(id, ...FINAL);
  await Promise.all([client.post(`/jobs/${id}/retry`), client.post(`/jobs/${id}/cancel`), client.post(`/jobs/${id}/retry`)]);
  await client.reached(id, ...FINAL);
}

describe('after two hundred jobs with cancels and retries in between', () => {
  it('each has one state, a whole history, an outcome and a report [FR-13.01] [FR-13.02] [FR-13.03] [FR-13.06] [FR-13.07] [FR-19.02]', async () => {
    const client = await server.client();
    const ids: string[] = [];
    for (let batch = 0; batch < 4; batch++) {
      const made = await Promise.all(Array.from({ length: 50 }, (_, n) => muddle(client, batch * 50 + n)));
      await server.ledger.moveClock(2 * HOUR);
      await Promise.all(made.map((id) => muddleAgain(client, id)));
      await server.ledger.moveClock(-2 * HOUR);
      ids.push(...made);
    }
    expect(new Set(ids).size).toBe(200);
    for (const id of ids) await expectAccounted(client, id);
    const { rows } = await server.ledger.db.api.query(
      'SELECT count(*)::int4 AS jobs, count(DISTINCT id)::int4 AS ids FROM millrace.jobs WHERE org_id = $1',
      [client.clientId],
    );
    expect(rows).toEqual([{ jobs: 200, ids: 200 }]);
  });
});

async function expectAccounted(client: TestClient, id: string): Promise<void> {
  const job = (await client.get(`/jobs/${id}`)).body;
  const { status, body } = await client.get(`/jobs/${id}/report`);
  expect(status).toBe(200);
  expect(job.outcome).toBe({ SUCCEEDED: 'SUCCESS', FAILED: 'FAILED', CANCELED: 'CANCELED' }[job.state as string]);
  expect(body).toMatchObject({ job_id: id, outcome: job.outcome });
  const events: Event[] = body.events;
  expect(isChain(events)).toBe(true);
  expect(events.at(-1)?.next_state).toBe(job.state);
  for (const { prev_state, next_state } of events.slice(1)) {
    expect(isAllowed(prev_state as ExecutionState, next_state as ExecutionState)).toBe(true);
  }
  expect(events.filter(({ next_state }) => next_state === 'CANCELED').length).toBeLessThanOrEqual(1);
  for (const { next_state } of events) expect(EXECUTION_STATES).toContain(next_state);
  const times = events.map(({ timestamp }) => timestamp);
  expect(times).toEqual([...new Set(times)].toSorted());
}

it('an id that is taken, by whatever client, is taken: no second job gets it [FR-13.01]', async () => {
  const [first, second] = [await server.client(), await server.client()];
  const id = await first.submit();
  await first.reached(id, 'SUCCEEDED');
  const before = (await first.get(`/jobs/${id}`)).body;
  const submission = { type: EXECUTION_TYPE, payload: {} };
  const terms = { profile: server.settings.profile };
  const entry = await server.engine.prepare({ orgId: second.clientId, submission, actor: null, terms });
  const again = server.engine.submitter.accept({ ...entry, id });
  await expect(again).rejects.toMatchObject({ constraint: 'jobs_by_id' });
  expect((await first.get(`/jobs/${id}`)).body).toEqual(before);
  expect((await second.get(`/jobs/${id}`)).status).toBe(403);
});
