import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import type { Handler, JobContext, Millrace } from '../../src/index.ts';
import { useStage } from '../library/fixture.ts';
import { HOSTILE_RUNS, hostileName, pollution, WORST } from './names.ts';

const stage = useStage();

type Use = [what: string, use: (millrace: Millrace, name: string) => unknown];

const submission = (more: object) => ({ type: 'plain', payload: {}, ...more });
/** Written as a literal, `__proto__` would be the prototype of the object. */
const member = (name: string, value: unknown) => Object.fromEntries([[name, value]]);

/** Types of arguments are not checked where a program is not compiled. */
const as = <T>(name: string): T => name as unknown as T;

/** Runs a job to its end, whichever that is. */
const runs = async (handler: Handler) => stage.end(await stage.act(handler, { maxAttempts: 1 }));

function fail(_context: JobContext, name: string): never {
  throw Object.assign(new Error(name), { code: name, name, context: member(name, name) });
}

async function tell(context: JobContext, name: string): Promise<object> {
  context.log('info', name, member(name, name));
  await context.reportProgress(50, name);
  await context.checkpoint(member(name, name));
  return member(name, name);
}

const USES: readonly Use[] = [
  ...['type', 'queue', 'idempotencyKey', 'correlationId', 'category', 'projectId', 'traceparent', 'priority', 'delay'].map(
    (each): Use => [`submit ${each}`, (millrace, name) => millrace.submit(submission({ [each]: name }))],
  ),
  ['submit a tag', (millrace, name) => millrace.submit(submission({ tags: member(name, 'x') }))],
  ['submit the value of a tag', (millrace, name) => millrace.submit(submission({ tags: { x: name } }))],
  ['submit a member', (millrace, name) => millrace.submit(submission(member(name, 1)))],
  ['submit a payload', (millrace, name) => millrace.submit(submission({ payload: member(name, { polluted: 1 }) }))],
  ['submit a unique key', (millrace, name) => millrace.submit(submission({ unique: { key: name, onConflict: 'replace' } }))],
  ['submit a member of a unique key', (millrace, name) => millrace.submit(submission({ unique: member(name, 'x') }))],
  ['submit a debounced key', (millrace, name) => millrace.submit(submission({ debounce: { key: name, delay: '1h' } }))],
  ['submit a dependency', (millrace, name) => millrace.submit(submission({ dependsOn: [name] }))],
  ['get', (millrace, name) => millrace.get(name)],
  ['cancel', (millrace, name) => millrace.cancel(name)],
  ['retry', (millrace, name) => millrace.retry(name)],
  ['explain', (millrace, name) => millrace.explain(name)],
  ['update', (millrace, name) => millrace.update(name, { priority: 'LOW' })],
  ['search a type', (millrace, name) => millrace.search({ types: [name] })],
  ['search a tag', (millrace, name) => millrace.search({ tags: member(name, 'x') as Record<string, string> })],
  ['search the value of a tag', (millrace, name) => millrace.search({ tags: { x: name } })],
  ['search a state', (millrace, name) => millrace.search({ states: [as(name)] })],
  ['search from a cursor', (millrace, name) => millrace.search({}, { cursor: name })],
  ['search in an order', (millrace, name) => millrace.search({}, { order: as(name) })],
  ['cancel what has a tag', (millrace, name) => millrace.cancelMany({ filter: { tags: member(name, 'x') as Record<string, string> } })],
  ['count by', (millrace, name) => millrace.stats({ breakdownBy: [as(name)] })],
  ['schedule under a key', (millrace, name) => millrace.schedule(name, { cron: '@yearly', submission: submission({}) })],
  ['schedule a cron', (millrace, name) => millrace.schedule('k', { cron: name, submission: submission({}) })],
  ['schedule in a zone', (millrace, name) => millrace.schedule('k', { cron: '@yearly', timeZone: name, submission: submission({}) })],
  ['schedule a type', (millrace, name) => millrace.schedule('k', { cron: '@yearly', submission: submission({ type: name }) })],
  ['unschedule', (millrace, name) => millrace.unschedule(name)],
  ['configure a queue', (millrace, name) => millrace.queues.configure(name, { order: 'fifo' })],
  ['order a queue', (millrace, name) => millrace.queues.configure('q:default', { order: as(name) })],
  [
    'pause and resume a queue',
    async (millrace, name) => {
      await millrace.queues.pause(name);
      await millrace.queues.resume(name);
    },
  ],
  [
    'pause and resume a type',
    async (millrace, name) => {
      await millrace.queues.pauseType(name);
      await millrace.queues.resumeType(name);
    },
  ],
  ['cap a type', (millrace, name) => millrace.queues.capType(name, null)],
  ['cap an org', (millrace, name) => millrace.queues.capOrg(name, null)],
  ['fail with a code and a context', (_millrace, name) => runs((context) => fail(context, name))],
  ['log, report and return', (_millrace, name) => runs((context) => tell(context, name))],
];

/** Null: done or refused with an error of the catalogue. */
async function faultOf([what, use]: Use, name: string): Promise<string | null> {
  try {
    await use(stage.millrace, name);
  } catch (error) {
    if (!isAppError(error) || error.code === 'INTERNAL_ERROR') return `${what} ${JSON.stringify(name.slice(0, 40))}: ${error}`;
  }
  return pollution().length === 0 ? null : `${what} ${JSON.stringify(name.slice(0, 40))}: ${pollution()}`;
}

/** Another org's jobs are accepted and run. */
async function expectUnharmed(): Promise<void> {
  expect(pollution()).toEqual([]);
  const org = await stage.ledger.newOrg();
  const other = await stage.work({ witness: () => 'seen' }, { org });
  const { jobId } = await other.submit({ type: 'witness', payload: {} });
  expect(await other.waitFor(jobId, { timeout: '60s' })).toMatchObject({ state: 'completed' });
}

describe('in a program, a name that it may trip over', () => {
  it('is taken or refused with a reason, wherever the library takes one', async () => {
    const faults: (string | null)[] = [];
    for (const use of USES) for (const name of WORST) faults.push(await faultOf(use, name));
    expect(faults.filter((fault) => fault !== null)).toEqual([]);
    await expectUnharmed();
  });

  it('is taken or refused with a reason, whatever it is made of', async () => {
    const property = fc.asyncProperty(hostileName, fc.constantFrom(...USES), async (name, use) => {
      expect(await faultOf(use, name)).toBeNull();
    });
    await fc.assert(property, { numRuns: HOSTILE_RUNS });
    await expectUnharmed();
  });
});
