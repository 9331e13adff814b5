/** What callers learn of the server from the failures of their jobs. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { PermanentError } from '../../src/core/failure.ts';
import { wholeOrg } from '../../src/core/owner.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const MISSING = '/srv/millrace/accounts/private.pem';
const fails = (error: () => unknown) => async (): Promise<never> => {
  throw await error();
};

const openMissing = () => readFile(MISSING).catch((error: unknown) => error);
const ofDatabase = () => queue.ledger.db.api.query('SELECT * FROM hidden_table').catch((error: unknown) => error);
const refused = async () => (await once(connect(1, '127.0.0.1'), 'connect').catch((error: unknown) => error)) as unknown;
const withPath = () =>
  Object.assign(new PermanentError(`cannot parse ${import.meta.filename}:7`, { code: 'BAD' }), { context: { file: MISSING } });

/** Everything that the API says about a failed job. */
async function everythingOf(caller: Caller, jobId: string): Promise<string> {
  const answers = [
    await caller.get(`/jobs/${jobId}`, { include_result: 'true', include_history: 'true' }),
    await caller.get(`/jobs/${jobId}/failure`, { include_all_attempts: 'true' }),
    await caller.get(`/jobs/${jobId}/explain`),
    await caller.post('/failures/search', {}),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  return JSON.stringify(answers.map(({ body }) => body));
}

// A process is the end of the name of its worker. Without the quote, the time of a change or a line of a file could look like it.
const PLACE = [process.cwd(), hostname(), `:${process.pid}"`, '/srv/millrace', 'node_modules/', 'file://'];

describe('a failure names no path, host or process of the server', () => {
  it.each([
    ['a file that is missing', openMissing, 'a system call of the handler failed (ENOENT)', 'private.pem'],
    ['a statement that PostgreSQL refused', ofDatabase, 'a database refused a statement of the handler (SQLSTATE_42P01)', 'hidden_table'],
    ['a connection that failed', refused, 'a connection of the handler failed (ECONNREFUSED)', '127.0.0.1'],
    ['a message of the handler with a path', withPath, 'cannot parse failures-hidden.test.ts:7', 'test/http'],
  ])('%s', async (_what, error, message, hidden) => {
    const caller = await queue.caller();
    const jobId = await caller.act(fails(error), { max_attempts: 1 });
    await caller.reached(jobId, 'FAILED', 'DEAD_LETTER');
    const { failure } = (await caller.get(`/jobs/${jobId}/failure`)).body;
    expect(failure).toMatchObject({ message, worker_id: expect.stringMatching(/^worker-[0-9a-f]{12}$/) });
    expect(failure.host).toMatch(/^host-[0-9a-f]{12}$/);
    const said = await everythingOf(caller, jobId);
    for (const place of [...PLACE, hidden]) expect(said).not.toContain(place);
  });

  it('tells the frames of the stack by file, and keeps the whole of it for operators', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(fails(withPath));
    await caller.reached(jobId, 'FAILED');
    const { failure } = (await caller.get(`/jobs/${jobId}/failure`)).body;
    expect(failure.stack_trace).toMatch(
      /^PermanentError: cannot parse failures-hidden\.test\.ts:7\n {4}at .*\(?failures-hidden\.test\.ts:\d+/,
    );
    expect(failure.context).toEqual({ file: 'private.pem' });
    const stored = await queue.engine.reader.get(wholeOrg(caller.orgId), jobId);
    expect(stored?.lastFailure?.stackTrace).toContain(import.meta.filename);
    expect(stored?.lastFailure?.context).toEqual({ file: MISSING });
  });

  it('names a worker alike in every answer, also while it runs', async () => {
    const caller = await queue.caller();
    const running = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const jobId = await caller.act(
      async () => {
        running.resolve();
        await released.promise;
        throw withPath();
      },
      { max_attempts: 1 },
    );
    await running.promise;
    const { summary, facts } = (await caller.get(`/jobs/${jobId}/explain`)).body;
    released.resolve();
    await caller.reached(jobId, 'FAILED');
    const { failure } = (await caller.get(`/jobs/${jobId}/failure`)).body;
    expect(summary).toBe(`It is running on ${failure.worker_id}.`);
    expect(facts.holder).toMatchObject({ name: failure.worker_id, host: failure.host });
  });
});
