import { describe, expect, it } from 'vitest';
import { readClock, stopClockAt } from '../../src/ledger/driver/clock.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { at, type Event } from './execution-work.ts';

const server = useExecution();
const { ledger } = server;
const HOUR = 3_600_000;

const deferred = (client: TestClient, executionAt: string) => client.submit({ type: 'DEFERRED', execution_at: executionAt });
const stage = () => stageJobs(ledger.db.workers, { limit: 1_000, floor: null });

/** What a test does while the clock stands, at times that it sets itself. */
async function atStandstill(work: (stand: (at: Date) => Promise<void>, now: Date) => Promise<void>): Promise<void> {
  const stand = (time: Date) => stopClockAt(ledger.db.maintenance, time);
  await server.worker('none');
  const now = await readClock(ledger.db.api);
  await stand(now);
  try {
    await work(stand, now);
  } finally {
    await ledger.moveClock(0);
    await server.worker('start');
  }
}

const plus = (time: Date, ms: number): Date => new Date(time.getTime() + ms);

describe('a job for later', () => {
  it('stays CREATED until its time, and is QUEUED then, to the second [FR-10.03] [FR-10.04] [FR-10.09]', async () => {
    await atStandstill(async (stand, now) => {
      const client = await server.client();
      const due = plus(now, HOUR);
      const first = await deferred(client, due.toISOString());
      const second = await deferred(client, plus(due, 1_000).toISOString());
      await stand(plus(due, -1));
      await stage();
      expect([await client.state(first), await client.state(second)]).toEqual(['CREATED', 'CREATED']);
      await stand(due);
      await stage();
      expect([await client.state(first), await client.state(second)]).toEqual(['QUEUED', 'CREATED']);
      await stand(plus(due, 1_000));
      await stage();
      expect([await client.state(first), await client.state(second)]).toEqual(['QUEUED', 'QUEUED']);
      const job = (await client.get(`/jobs/${first}`)).body;
      expect(job).toMatchObject({ execution_at: due.toISOString(), updated_at: due.toISOString() });
    });
  });

  it('is staged on time: the stager learns how long the next job waits [FR-10.09]', async () => {
    await atStandstill(async (stand, now) => {
      const client = await server.client();
      await deferred(client, plus(now, 50 * HOUR).toISOString());
      await stand(plus(now, 50 * HOUR - 321));
      const { nextInMs } = await stage();
      expect(nextInMs).toBe(321);
    });
  });

  it('never executes before its time, and executes then [FR-10.05] [FR-10.04]', async () => {
    const client = await server.client();
    const executionAt = at(HOUR);
    const id = await deferred(client, executionAt);
    await ledger.moveClock(HOUR - 60_000);
    // The worker runs whatever is due: a job that is done shows that it has looked.
    await client.reached(await client.submit(), 'SUCCEEDED');
    expect((await client.get(`/jobs/${id}`)).body).toMatchObject({ state: 'CREATED', execution_at: executionAt });
    await ledger.moveClock(120_000);
    await client.reached(id, 'SUCCEEDED');
    await ledger.moveClock(-HOUR - 60_000);
    const { events } = (await client.report(id)) as { events: Event[] };
    const moved = events.filter(({ event_name }) => event_name !== 'job.created');
    expect(moved.map(({ event_name }) => event_name)).toContain('job.running');
    for (const { timestamp } of moved) expect(Date.parse(timestamp)).toBeGreaterThanOrEqual(Date.parse(executionAt));
  });

  it('runs at its time, however far in the future that is', async () => {
    const client = await server.client();
    const id = await deferred(client, at(80 * 24 * HOUR));
    await ledger.moveClock(80 * 24 * HOUR);
    await client.reached(id, 'SUCCEEDED');
    await ledger.moveClock(-80 * 24 * HOUR);
  });
});

describe('a time in the past', () => {
  it('is refused, and leaves no job [FR-10.06]', async () => {
    const client = await server.client();
    const answer = await client.post('/jobs', { type: 'DEFERRED', execution_at: at(-HOUR) });
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'RFA_JOB_VALIDATION_FAILED', errors: [{ field: 'execution_at', code: 'IN_THE_PAST' }] },
    });
    const text = 'SELECT FROM millrace.jobs WHERE org_id = $1';
    expect((await ledger.db.api.query(text, [client.clientId])).rowCount).toBe(0);
  });

  it('is now when it is a second old at most, and for a client whose clock is a second ahead nothing changes [FR-10.10]', async () => {
    await atStandstill(async (_, now) => {
      const client = await server.client();
      const answers = [-1_001, -1_000, 0, 1_000].map((ms) =>
        client.post('/jobs', { type: 'DEFERRED', execution_at: plus(now, ms).toISOString() }),
      );
      const shown = (await Promise.all(answers)).map(({ status, body }) => `${status} ${body.state ?? body.code}`);
      expect(shown).toEqual(['400 RFA_JOB_VALIDATION_FAILED', '202 QUEUED', '202 QUEUED', '202 CREATED']);
    });
  });

  it('is judged by the clock of the database, not by that of this process [FR-10.10]', async () => {
    const client = await server.client();
    await ledger.moveClock(HOUR);
    const answer = await client.post('/jobs', { type: 'DEFERRED', execution_at: at(HOUR / 2) });
    expect(answer).toMatchObject({ status: 400, body: { code: 'RFA_JOB_VALIDATION_FAILED' } });
    await ledger.moveClock(-HOUR);
  });
});
