import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ask, folderWith, run } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });
const putJob = (state: JobState, type?: string) => ledger.putJob(state, { orgId: DEFAULT_ORG_ID, type });

type Shown = { id: string; state: string; payload: unknown; tags: unknown } & Record<string, unknown>;
type Submitted = { jobId: string; status: string };

describe('jobs submit', () => {
  it('accepts a payload written out, from a file and from standard input', async () => {
    const cwd = folderWith({ 'payload.json': '{"n":2}' });
    const calls = [
      { payload: '{"n":1}', expected: { n: 1 } },
      { payload: '@payload.json', expected: { n: 2 } },
      { payload: '-', expected: { n: 3 }, stdin: '{"n":3}' },
    ];
    for (const { payload, expected, stdin } of calls) {
      const { jobId, status } = await ask<Submitted>(['jobs', 'submit', 'cli.payload', payload], {
        ...here(),
        cwd,
        stdin,
      });
      expect(status).toBe('ACCEPTED');
      expect(await ask<Shown>(['jobs', 'get', jobId], here())).toMatchObject({ state: 'scheduled', payload: expected });
    }
  });

  it('hands on priority, delay, key, queue, tags and dependencies', async () => {
    const dependency = await putJob('scheduled');
    const args = ['jobs', 'submit', 'cli.options', '--priority', 'high', '--delay', '90', '--key', 'k-1', '--queue', 'mail'];
    const more = ['--tag', 'customer=42', '--tag', 'note=a=b', '--depends-on', dependency.id];
    const first = await ask<Submitted>([...args, ...more], here());
    const shown = await ask<Shown>(['jobs', 'get', first.jobId], here());
    expect(shown).toMatchObject({
      ...{ state: 'pending', priority: 'HIGH', idempotencyKey: 'k-1', queue: 'mail', payload: {} },
      ...{ tags: { customer: '42', note: 'a=b' }, dependsOn: [dependency.id] },
    });
    const again = await run([...args, ...more], here());
    expect(again.stdout).toBe(`Job ${first.jobId} is pending. It was already submitted with this key.\n`);
  });

  it('says what became of a job whose key another one has', async () => {
    const args = ['jobs', 'submit', 'cli.unique', '--unique', 'k'];
    const first = await ask<Submitted>(args, here());
    const said = async (...more: string[]) => (await run([...args, ...more], here())).stdout;
    expect(await said()).toBe(`Job ${first.jobId} is scheduled. It has this unique key already, so no job was created.\n`);
    expect(await said('--on-conflict', 'replace_payload')).toBe(
      `Job ${first.jobId} is scheduled. It has this key already, and has the new payload now.\n`,
    );
    expect(await said('--until', 'started', '--on-conflict', 'replace')).toContain(` It replaces job ${first.jobId}.`);
    const debounced = ['jobs', 'submit', 'cli.debounced', '--debounce', 'k', '--delay', '1h'];
    const { jobId } = await ask<Submitted>(debounced, here());
    expect((await run(debounced, here())).stdout).toContain(`Job ${jobId} is delayed. It has this key already`);
    expect((await run(['jobs', 'submit', 'any', '--until', 'started'], here())).stderr).toContain('need --unique');
    expect((await run(['jobs', 'submit', 'any', '--debounce', 'k'], here())).stderr).toContain('--debounce needs --delay');
    expect((await run([...args, '--until', 'end'], here())).stderr).toContain('use started, finished');
  });

  it('prints the id, and refuses what is not valid with every reason', async () => {
    const good = await run(['jobs', 'submit', 'cli.plain'], here());
    expect(good.stdout).toMatch(/^Job [0-9a-f-]{36} is scheduled\.\n$/);
    const bad = await run(['jobs', 'submit', 'cli.plain', '--queue', 'NO GOOD', '--key', ''], here());
    expect(bad).toMatchObject({ code: 1, stdout: '' });
    expect(bad.stderr).toContain('queue must be 1 to 100 characters');
    expect(bad.stderr).toContain('idempotencyKey must not be empty');
  });
});

describe('jobs get', () => {
  it('shows a job with its history and attempts', async () => {
    const job = await putJob('dead_letter');
    const shown = await ask<Shown>(['jobs', 'get', job.id, '--history', '--attempts'], here());
    expect(shown).toMatchObject({
      ...{ id: job.id, state: 'dead_letter', lastFailure: { code: 'BOOM' } },
      history: [{ to: 'scheduled' }, { to: 'running' }, { from: 'running', to: 'dead_letter', reason: 'attempts_exhausted' }],
      attempts: [{ attempt: 1, result: 'FAILURE', workerId: 'worker', host: 'host-1' }],
    });
    const { stdout } = await run(['jobs', 'get', job.id, '--history', '--attempts'], here());
    expect(stdout).toMatch(/^state +dead_letter$/m);
    expect(stdout).toMatch(/running +dead_letter +attempts_exhausted +1$/m);
    expect(stdout).toMatch(/^1 .* FAILURE +worker +BOOM: it broke$/m);
  });

  it('ends with 1 when there is no such job', async () => {
    const id = randomUUID();
    const [people, programs] = await Promise.all([run(['jobs', 'get', id], here()), run(['jobs', 'get', id, '--json'], here())]);
    expect(people).toMatchObject({ code: 1, stdout: '' });
    expect(people.stderr).toBe(`error: There is no job ${id}.\nCheck the id; jobs are removed when their retention ends.\n`);
    expect(programs.code).toBe(1);
    expect(JSON.parse(programs.stderr).error.code).toBe('NOT_FOUND');
  });
});

describe('jobs list', () => {
  it('filters, limits, orders and pages', async () => {
    const failed = await putJob('failed', 'cli.list');
    const first = await putJob('scheduled', 'cli.list');
    const second = await putJob('scheduled', 'cli.list');
    const list = (...args: string[]) =>
      ask<{ jobs: Shown[]; totalCount: number; nextCursor: string | null }>(['jobs', 'list', '--type', 'cli.list', ...args], here());
    const idsOf = ({ jobs }: { jobs: Shown[] }) => jobs.map(({ id }) => id);

    expect(idsOf(await list())).toEqual([second.id, first.id, failed.id]);
    expect(idsOf(await list('--state', 'FAILED,dead_letter'))).toEqual([failed.id]);
    const page = await list('--limit', '2');
    expect(page).toMatchObject({ totalCount: 3, hasMore: true });
    expect(idsOf(await list('--limit', '2', '--cursor', page.nextCursor as string))).toEqual([failed.id]);
    expect(idsOf(await list('--order', 'created_asc'))).toEqual([failed.id, first.id, second.id]);
    expect(idsOf(await list('--tag', 'no=thing'))).toEqual([]);

    const { stdout } = await run(['jobs', 'list', '--type', 'cli.list', '--limit', '2'], here());
    expect(stdout).toMatch(new RegExp(`^${second.id}  scheduled  cli\\.list  q:default  NORMAL `, 'm'));
    expect(stdout).toMatch(/^2 of 3\nNext page: --cursor \S+$/m);
    expect((await run(['jobs', 'list', '--type', 'none.such'], here())).stdout).toBe('No job matches.\n');
  });
});

describe('jobs cancel', () => {
  it('cancels by id, says so for each, and ends with 1 when one is missing', async () => {
    const [waiting, ended] = [await putJob('scheduled'), await putJob('completed')];
    const { results } = await ask<{ results: unknown }>(['jobs', 'cancel', waiting.id, ended.id, '--reason', 'no need'], here());
    expect(results).toMatchObject([
      { jobId: waiting.id, status: 'CANCELLED', previousState: 'scheduled' },
      { jobId: ended.id, status: 'ALREADY_COMPLETE', previousState: 'completed' },
    ]);
    expect(await ledger.stateOf(waiting)).toBe('cancelled');
    const missing = await run(['jobs', 'cancel', randomUUID()], here());
    expect(missing.code).toBe(1);
    expect(missing.stdout).toContain('NOT_FOUND');
  });

  it('cancels by filter, after a dry run that changes nothing', async () => {
    const jobs = [await putJob('scheduled', 'cli.cancel'), await putJob('delayed', 'cli.cancel')];
    const args = ['jobs', 'cancel', '--type', 'cli.cancel', '--state', 'scheduled,delayed'];
    const dry = await run([...args, '--dry-run'], here());
    expect(dry.stdout).toBe('2 found: 2 would be cancelled or asked to stop, 0 had already ended, 0 not found.\n');
    expect(await Promise.all(jobs.map((job) => ledger.stateOf(job)))).toEqual(['scheduled', 'delayed']);
    expect(await ask([...args, '--yes'], here())).toEqual({
      requested: 2,
      cancelled: 2,
      skipped: 0,
      failed: 0,
      errors: [],
      dryRun: false,
    });
    expect(await Promise.all(jobs.map((job) => ledger.stateOf(job)))).toEqual(['cancelled', 'cancelled']);
  });
});

describe('jobs retry', () => {
  it('gives a failed job another attempt, and refuses one that did not fail', async () => {
    const [failed, completed] = [await putJob('failed'), await putJob('completed')];
    const retried = await ask(['jobs', 'retry', failed.id, '--reset', '--delay', '1h', '--priority', 'LOW'], here());
    expect(retried).toMatchObject({ jobId: failed.id, status: 'QUEUED', newState: 'delayed' });
    expect(await ask(['jobs', 'get', failed.id], here())).toMatchObject({ state: 'delayed', priority: 'LOW' });
    const refused = await run(['jobs', 'retry', completed.id], here());
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('is completed. Only failed and dead_letter jobs can be retried.');
  });
});

describe('jobs explain', () => {
  it('says in sentences why a job does not run', async () => {
    const job = await putJob('scheduled', 'cli.explain');
    const { code, stdout } = await run(['jobs', 'explain', job.id], here());
    expect(code).toBe(0);
    expect(stdout).toContain(`Job ${job.id} is scheduled. No live worker serves type cli.explain in queue q:default.`);
    const told = await ask(['jobs', 'explain', job.id], here());
    expect(told).toMatchObject({ state: 'scheduled', obstacles: [{ code: 'NO_WORKER' }] });
  });
});

describe('queues', () => {
  it('are listed, paused and resumed', async () => {
    const paused = await run(['queues', 'pause', 'q:default'], here());
    expect(paused).toMatchObject({ code: 0, stdout: 'Queue q:default is paused.\n' });
    expect((await run(['queues', 'list'], here())).stdout).toMatch(/^q:default +\d+ .*fair +paused since \d{4}-/m);
    expect(await ask(['queues', 'resume', 'q:default'], here())).toMatchObject({
      queue: { name: 'q:default', pausedAt: null },
    });
    const mistyped = await run(['queues', 'pause', 'default'], here());
    expect(mistyped.code).toBe(1);
    expect(mistyped.stderr).toContain('There is no queue "default" (did you mean q:default?)');
  });
});
