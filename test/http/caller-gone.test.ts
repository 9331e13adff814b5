import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import type { Door } from '../../src/http/door.ts';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { searchJobs } from '../../src/services/jobs/search-jobs.ts';
import { submitMany } from '../../src/services/jobs/submit-many.ts';
import { Gate } from '../library/fixture.ts';
import { queueDoor } from './queue-door.ts';
import { QUEUE, useQueue } from './queue-fixture.ts';
import { dial } from './server-fixture.ts';

const JOBS = 1_500;
const PAGE = 500;
const queue = useQueue();
let port: number;
let onClosed = () => {};

beforeAll(async () => {
  const door: Door = {
    ...queueDoor,
    register(http, engine) {
      http.server.on('connection', (socket) => socket.on('close', () => onClosed()));
      return queueDoor.register(http, engine);
    },
  };
  port = Number(new URL(await queue.listen({ doors: [door] })).port);
});

async function orgWithJobs() {
  const caller = await queue.caller();
  const submissions = Array.from({ length: PAGE }, () => ({ type: 'nobody', payload: {} }));
  for (let n = 0; n < JOBS; n += PAGE) await submitMany(queue.engine, { orgId: caller.orgId, submissions, atomic: true, actor: null });
  const key = await queue.keyOf(caller.orgId, ['jobs:cancel']);
  const countOf = async (state: string): Promise<number> => {
    const text = 'SELECT count(*)::int4 AS jobs FROM millrace.jobs WHERE org_id = $1 AND state = $2';
    return (await queue.ledger.db.api.query(text, [caller.orgId, state])).rows[0].jobs;
  };
  return { caller, key, countOf };
}

/** Holds the searches of an org from this statement on. */
function holdFrom(statement: number, orgId: string) {
  const gate = new Gate();
  const reached = Promise.withResolvers<void>();
  const { searches } = queue.ledger.db;
  const of = searches.of.bind(searches);
  onTestFinished(() => {
    searches.of = of;
  });
  let statements = 0;
  searches.of = (org) => ({
    ...of(org),
    async query(config) {
      if (config.values?.includes(orgId) && ++statements >= statement) {
        reached.resolve();
        await gate.pass();
      }
      return of(org).query(config);
    },
  });
  return { gate, reached: reached.promise };
}

const isSearch = (name: string): boolean => /search_created|count_found/.test(name);

it('a cancellation by filter stops when its caller has gone; what it did is done', async () => {
  const { caller, key, countOf } = await orgWithJobs();
  const { gate, reached } = holdFrom(2, caller.orgId);
  const socket = await dial(port);
  const body = JSON.stringify({ filter: { types: ['nobody'] } });
  socket.write(
    `POST ${QUEUE}/jobs/cancel HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  await reached;
  const closed = new Promise<void>((resolve) => {
    onClosed = resolve;
  });
  socket.destroy();
  await closed;
  gate.open();
  // One at a time: this waits for the cancellation.
  await queue.engine.canceller.filterTurns.run(caller.orgId, async () => {});
  expect(await countOf('cancelled')).toBe(PAGE);
  expect(await countOf('scheduled')).toBe(JOBS - PAGE);
});

it('a dry run counts in the database and reads no job', async () => {
  const { caller } = await orgWithJobs();
  await caller.post('/jobs/cancel', { filter: { types: ['nobody'], limit: 200 } });
  const statements: string[] = [];
  observeStatements(({ name }) => statements.push(name));
  onTestFinished(() => observeStatements(null));
  const { body } = await caller.post('/jobs/cancel', { filter: { types: ['nobody'] }, dry_run: true });
  expect(body).toEqual({ requested: JOBS, cancelled: JOBS - 200, skipped: 200, failed: 0, errors: [], dry_run: true });
  expect(statements.filter((name) => name.includes('count_matching'))).toHaveLength(1);
  expect(statements.filter((name) => name.includes('search_'))).toEqual([]);
});

it('a search whose caller has gone sends no further statement', async () => {
  const { caller } = await orgWithJobs();
  const statements: string[] = [];
  observeStatements(({ name, failed }) => {
    if (!failed) statements.push(name);
  });
  onTestFinished(() => observeStatements(null));
  const whole = await searchJobs(queue.engine, wholeOrg(caller.orgId));
  expect([whole.totalCount, statements.filter(isSearch).length]).toEqual([JOBS, 2]);
  const { gate, reached } = holdFrom(1, caller.orgId);
  const abort = new AbortController();
  const searching = searchJobs(queue.engine, { ...wholeOrg(caller.orgId), signal: abort.signal });
  await reached;
  abort.abort(new Error('gone'));
  gate.open();
  await expect(searching).rejects.toThrow('gone');
  expect(statements.filter(isSearch)).toHaveLength(3);
});
