/**
 * All 49 pairs of states. For each, a job is brought into the first state, and then everything is done to it that makes jobs
 * reach the second one elsewhere. Ten pairs happen so; 39 leave the job as it is and never appear in its events.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { EXECUTION_STATES, type ExecutionState, isAllowed } from '../../src/core/execution/states.ts';
import { returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import type { LeasedTestJob } from '../ledger/fixture.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { claimOne, type Event, inAnHour, isChain, jobOf, startOne } from './execution-work.ts';

const server = useExecution();
const { ledger } = server;
const TWO_HOURS = 7_200_000;

/** Nobody else works here: the tests play the workers. */
beforeAll(() => server.worker('none'));

type Subject = { client: TestClient; id: string; key: string; request: object; lease: LeasedTestJob | null };

const FAILURE = JSON.stringify({ category: 'TEMPORARY', code: 'BOOM', message: 'it broke' });

async function born(request: object): Promise<Subject> {
  const client = await server.client();
  const key = 'the key';
  const id = await client.submit({ ...request, idempotency_key: key });
  return { client, id, key, request, lease: null };
}

async function ended(to: 'completed' | 'failed'): Promise<Subject> {
  const subject = await BRING.RUNNING();
  await settle(subject, to);
  return subject;
}

/** Ends the attempt that this subject last had, or one that it never had. */
async function settle({ client, id, lease }: Subject, to: 'completed' | 'failed'): Promise<void> {
  const job = await jobOf(ledger, client.clientId, id);
  const held = lease ?? { ...job, leaseSeq: 0, workerId: await ledger.registerWorker() };
  if (to === 'completed') await ledger.settle(held, { to, reason: 'succeeded', result: '{}' });
  else await ledger.settle(held, { to, reason: 'temporary_failure', failure: FAILURE });
}

const cancel = ({ client, id }: Subject) => client.post(`/jobs/${id}/cancel`);

/** How a job gets into each state. */
const BRING: Record<ExecutionState, () => Promise<Subject>> = {
  CREATED: () => born({ type: 'DEFERRED', work_kind: 'SUCCESS_FAST', execution_at: inAnHour() }),
  QUEUED: () => born({}),
  ASSIGNED: async () => {
    const subject = await born({});
    return { ...subject, lease: await claimOne(ledger) };
  },
  RUNNING: async () => {
    const subject = await born({});
    return { ...subject, lease: await startOne(ledger) };
  },
  SUCCEEDED: () => ended('completed'),
  FAILED: () => ended('failed'),
  CANCELED: async () => {
    const subject = await born({});
    await cancel(subject);
    return subject;
  },
};

/** What makes jobs reach each state, done to this one. */
const TRY: Record<ExecutionState, (subject: Subject, from: ExecutionState) => Promise<unknown>> = {
  CREATED: ({ client, request, key }) =>
    client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST', ...request, idempotency_key: key }),
  QUEUED: async ({ client, id, lease }, from) => {
    await client.post(`/jobs/${id}/retry`);
    if (from === 'ASSIGNED' || from === 'RUNNING') await giveBack(lease as LeasedTestJob);
    if (from === 'CREATED') await ledger.moveClock(TWO_HOURS);
    await stageJobs(ledger.db.workers, { limit: 100, floor: null });
    if (from === 'CREATED') await ledger.moveClock(-TWO_HOURS);
  },
  ASSIGNED: () => claimOne(ledger),
  RUNNING: async (subject, from) => {
    if (from === 'ASSIGNED') await start(subject.lease as LeasedTestJob);
    else await startOne(ledger);
  },
  SUCCEEDED: (subject) => settle(subject, 'completed'),
  FAILED: (subject) => settle(subject, 'failed'),
  CANCELED: cancel,
};

const giveBack = (lease: LeasedTestJob) => returnJobs(ledger.db.workers, { workerId: lease.workerId, jobs: [lease], closedClaims: [] });

const start = (lease: LeasedTestJob) => startJobs(ledger.db.workers, { workerId: lease.workerId, jobs: [lease] });

/** Pairs where the state does become the other, by a way that is allowed: over a third state, or by a lease that ended. */
const BY_ANOTHER_WAY = ['QUEUED>RUNNING', 'ASSIGNED>QUEUED'];

const ALLOWED = [
  'CREATED>QUEUED',
  'CREATED>CANCELED',
  'QUEUED>ASSIGNED',
  'QUEUED>CANCELED',
  'ASSIGNED>RUNNING',
  'ASSIGNED>CANCELED',
  'RUNNING>SUCCEEDED',
  'RUNNING>FAILED',
  'RUNNING>CANCELED',
  'FAILED>QUEUED',
];

type Pair = [ExecutionState, ExecutionState];

const PAIRS: Pair[] = EXECUTION_STATES.flatMap((from) => EXECUTION_STATES.map((to): Pair => [from, to]));
const textOf = ([from, to]: Pair): string => `${from}>${to}`;

/** What became of the job, and the pairs that its events tell once it has ended. */
async function attempt([from, to]: Pair): Promise<{ state: string; events: Event[]; told: string[] }> {
  const subject = await BRING[from]();
  expect(await subject.client.state(subject.id)).toBe(from);
  await TRY[to](subject, from);
  const state = await subject.client.state(subject.id);
  await cancel(subject);
  const { events } = (await subject.client.report(subject.id)) as { events: Event[] };
  const told = events.map(({ prev_state, next_state }) => `${prev_state}>${next_state}`);
  expect(isChain(events)).toBe(true);
  expect(told.slice(1).filter((pair) => !ALLOWED.includes(pair))).toEqual([]);
  return { state, events, told };
}

describe('the changes of state that are allowed', () => {
  it.each(PAIRS.filter((pair) => ALLOWED.includes(textOf(pair))))(
    '%s to %s happens, and the events tell it [FR-09.11..20]',
    async (from, to) => {
      const { state, told } = await attempt([from, to]);
      expect(state).toBe(to);
      expect(told).toContain(textOf([from, to]));
    },
  );
});

describe('the changes of state that are forbidden', () => {
  it.each(PAIRS.filter((pair) => !ALLOWED.includes(textOf(pair))))(
    '%s to %s does not happen, whatever is done to the job [FR-09.21..59] [FR-14.50]',
    async (from, to) => {
      const { state, told } = await attempt([from, to]);
      expect(state).toBe(BY_ANOTHER_WAY.includes(textOf([from, to])) ? to : from);
      expect(told).not.toContain(textOf([from, to]));
    },
  );
});

it('ten pairs are allowed and 39 are not, which is all of them [FR-09.60] [FR-19.02]', () => {
  const inTable = PAIRS.filter(([from, to]) => isAllowed(from, to)).map(textOf);
  expect(inTable.toSorted()).toEqual(ALLOWED.toSorted());
  expect(PAIRS).toHaveLength(49);
  expect(PAIRS.length - inTable.length).toBe(39);
});

it('a job that runs has always been ASSIGNED before, even when both events arrive together [FR-09.28] [FR-13.03]', async () => {
  const { told } = await attempt(['QUEUED', 'RUNNING']);
  expect(told.slice(2)).toEqual(['QUEUED>ASSIGNED', 'ASSIGNED>RUNNING', 'RUNNING>CANCELED']);
});

it('a lease that ends before the start leaves no event: the job reads QUEUED again [FR-09.32] [FR-12.06]', async () => {
  const { told } = await attempt(['ASSIGNED', 'QUEUED']);
  expect(told.slice(2)).toEqual(['QUEUED>CANCELED']);
});
