import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { ask, folderWith, type Running, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

/** Says that it began, and goes on when the process gets SIGUSR2. Something of it stays open for ever. */
const PATIENT = `
  import { once } from 'node:events';
  setInterval(() => {}, 60_000);
  export const handlers = {
    patient: {
      maxAttempts: 1,
      async handler(context) {
        const released = once(process, 'SIGUSR2');
        context.log('info', 'began');
        await released;
        return 'done';
      },
    },
  };`;

type Shown = { state: string; attemptsStarted: number; maxAttempts: number };
const show = (id: string) => ask<Shown>(['jobs', 'get', id, '--attempts'], here());

async function submit(type: string, payload = '{}'): Promise<string> {
  return (await ask<{ jobId: string }>(['jobs', 'submit', type, payload], here())).jobId;
}

async function startPatient(...options: string[]): Promise<{ worker: Running; id: string }> {
  const id = await submit('patient');
  const worker = start(['work', 'patient.js', ...options], { ...here(), cwd: folderWith({ 'patient.js': PATIENT }) });
  await worker.said(new RegExp(`info patient ${id}: began`));
  return { worker, id };
}

describe('work', () => {
  it('runs submitted jobs with the handlers of its modules, however they export them', async () => {
    const cwd = folderWith({
      'by-function.ts': `export function register(millrace: any): void {
        millrace.register({ type: 'cli.add', handler: (_context: unknown, { a, b }: any) => a + b });
      }`,
      'by-list.js': `export const handlers = [{ type: 'cli.echo', handler: (_context, payload) => payload }];`,
      'by-name.js': `export const handlers = { 'cli.up': { maxAttempts: 1, handler: (_context, { text }) => text.toUpperCase() } };`,
    });
    const jobs = [
      [await submit('cli.add', '{"a":1,"b":2}'), 3],
      [await submit('cli.echo', '{"n":1}'), { n: 1 }],
      [await submit('cli.up', '{"text":"x"}'), 'X'],
    ] as const;
    const modules = ['by-function.ts', 'by-list.js', 'by-name.js'];
    const worker = start(['work', ...modules, '--verbose', '--name', 'w-1', '--concurrency', '2'], { ...here(), cwd });
    await worker.said(/Serving cli\.add, cli\.echo, cli\.up\n {2}from all queues, 2 at the same time\n {2}database postgres:/);
    await worker.said(/Stop with Ctrl-C or SIGTERM/);
    for (const [id, output] of jobs) {
      await worker.said(new RegExp(`completed cli\\.\\w+ ${id}, attempt 1`));
      expect(await show(id)).toMatchObject({ state: 'completed', result: { output }, attempts: [{ workerId: 'w-1' }] });
    }
    worker.kill('SIGINT');
    expect(await worker.ended).toMatchObject({ code: 0 });
    expect(worker.stdout).not.toContain(new URL(ledger.db.url).password || '\0');
  });

  it('runs every type that can be submitted, and refuses the others as a submission does [N11]', async () => {
    const names = ['請求書の送信', 'mail to "Ann, Bob"', '🚀'.repeat(100)];
    const written = JSON.stringify(names.map((type) => ({ type })));
    const cwd = folderWith({
      'any.js': `export const handlers = ${written}.map(({ type }) => ({ type, handler: () => type }));`,
      'long.js': `export const handlers = [{ type: '🚀'.repeat(101), handler() {} }];`,
    });
    const jobs = await Promise.all(names.map(async (type) => [type, await submit(type, '{}')] as const));
    const worker = start(['work', 'any.js', '--verbose'], { ...here(), cwd });
    for (const [type, id] of jobs) {
      await worker.said(new RegExp(`completed .+ ${id}, attempt 1`));
      expect(await show(id)).toMatchObject({ type, state: 'completed', result: { output: type } });
    }
    const refused = [await run(['work', 'long.js'], { ...here(), cwd }), await run(['jobs', 'submit', '🚀'.repeat(101)], here())];
    for (const each of refused) expect(each).toMatchObject({ code: 1, stderr: expect.stringContaining('at most 100 characters') });
  });

  it('serves only the queues it is told, and tells programs what happens', async () => {
    const cwd = folderWith({
      'fail.js': `export const handlers = { 'cli.fail': { maxAttempts: 1, handler() { throw new Error('no luck'); } } };`,
    });
    const inQueue = (queue: string) => ask<{ jobId: string }>(['jobs', 'submit', 'cli.fail', '--queue', queue], here());
    const [left, taken] = [await inQueue('left'), await inQueue('taken')];
    const args = ['work', 'fail.js', '--queues', 'taken,other', '--json'];
    const worker = start(args, { ...here(), cwd });
    await worker.said(/"event":"failed"/);
    worker.kill('SIGTERM');
    const { stdout } = await worker.ended;
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events).toMatchObject([
      { event: 'serving', types: ['cli.fail'], queues: ['taken', 'other'] },
      { event: 'failed', jobId: taken.jobId, failure: { message: 'no luck' } },
      { event: 'draining', signal: 'SIGTERM', grace: '30s' },
      { event: 'stopped' },
    ]);
    expect(await show(left.jobId)).toMatchObject({ state: 'scheduled', attempts: [] });
  });

  it.each([
    [
      'nothing.js',
      'setInterval(() => {}, 60_000); export const other = 1;',
      /nothing\.js registers no handlers\. Export a function "register\(millrace\)"/,
    ],
    ['broken.js', 'import "./not-there.js";', /broken\.js could not be loaded: Cannot find module/],
    ['invalid.js', 'export const handlers = [{ type: "a\\tb" }];', /The handler of "a\\tb" cannot be registered: type must not contain/],
    ['quiet.js', 'export const register = (m) => m.register({ type: "x" });', /The handler of "x" cannot be registered/],
    [null, '', /There is no file .*absent\.js/],
  ])('refuses %s', async (name, source, sentence) => {
    const cwd = folderWith(name === null ? {} : { [name]: source });
    const { code, stderr } = await run(['work', name ?? './absent.js'], { ...here(), cwd });
    expect(code).toBe(1);
    expect(stderr).toMatch(sentence);
  });
});

describe('a stopped worker', () => {
  it('lets a job in flight finish within the grace, and starts nothing more [N23]', async () => {
    const { worker, id } = await startPatient('--grace', '1m');
    worker.kill('SIGTERM');
    await worker.said(/SIGTERM: draining; running jobs have 1m to finish\./);
    const later = await submit('patient');
    worker.kill('SIGUSR2');
    expect(await worker.ended).toMatchObject({ code: 0 });
    expect(worker.stdout).toMatch(/Stopped\.\n$/);
    expect(await show(id)).toMatchObject({ state: 'completed', result: { output: 'done' } });
    expect(await show(later)).toMatchObject({ state: 'scheduled', attempts: [] });
    await run(['jobs', 'cancel', later], here());
  });

  it('gives back what the grace does not let finish, and no attempt is burnt [N23]', async () => {
    const { worker, id } = await startPatient('--grace', '0');
    const { maxAttempts } = await show(id);
    worker.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 0 });
    const given = await show(id);
    expect(given).toMatchObject({ state: 'scheduled', attempts: [{ failure: { code: 'WORKER_STOPPED' } }] });
    expect(given.maxAttempts - given.attemptsStarted).toBe(maxAttempts);
    const cwd = folderWith({ 'quick.js': `export const handlers = { patient: () => 'quick' };` });
    const other = start(['work', 'quick.js', '--verbose'], { ...here(), cwd });
    await other.said(new RegExp(`completed patient ${id}`));
    expect(await show(id)).toMatchObject({
      ...{ state: 'completed', result: { output: 'quick' } },
      attempts: [{ failure: { code: 'WORKER_STOPPED' } }, { result: 'SUCCESS', failure: null }],
    });
  });

  it('does not wait any longer after a second signal', async () => {
    const { worker, id } = await startPatient('--grace', '10m');
    worker.kill('SIGTERM');
    await worker.said(/draining/);
    worker.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 130 });
    expect(worker.stdout).toContain('Stopped immediately');
    expect(await show(id)).toMatchObject({ state: 'running' });
  });
});
