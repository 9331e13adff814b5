/** What `millrace up` runs besides the built-in types, and what it prints about jobs. */
import { describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { ask, folderWith, type Running, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

const HANDLERS = `
  type Greeting = { name: string };
  export function register(millrace: { register(registration: object): unknown }): void {
    millrace.register({
      type: 'greet',
      maxAttempts: 1,
      handler: (context: any, { name }: Greeting) => {
        if (name === '') throw new Error('nobody to greet');
        context.log('info', 'greeting', { name });
        return 'hello ' + name;
      },
    });
  }`;

async function startUp(...args: string[]): Promise<Running> {
  const up = start(['up', '--port', '0', ...args], { ...here(), cwd: folderWith({ 'handlers.ts': HANDLERS }) });
  await up.said(/Stop with Ctrl-C.*\n|"event":"up".*\n/);
  return up;
}

type Shown = { jobId: string; id: string; state: string; result: { output: unknown } };
const submit = (type: string, payload: string, ...options: string[]) => ask<Shown>(['jobs', 'submit', type, payload, ...options], here());

async function stopped(up: Running): Promise<string[]> {
  up.kill('SIGTERM');
  expect(await up.ended).toMatchObject({ code: 0, stderr: '' });
  return up.stdout.trim().split('\n');
}

describe('up with modules', () => {
  it('runs the handlers of the modules and the built-in types in one process, and prints what they log', async () => {
    const up = await startUp('./handlers.ts');
    expect(up.stdout).toMatch(/^ {2}handlers {2}greet$/m);
    expect(await submit('greet', '{"name":"Ada"}', '--wait')).toMatchObject({ state: 'completed', result: { output: 'hello Ada' } });
    expect(await submit('simulate', '{"duration_ms":1}', '--wait')).toMatchObject({ state: 'completed' });
    const { code } = await run(['jobs', 'submit', 'greet', '{"name":""}', '--wait'], here());
    expect(code).toBe(1);
    await up.said(/^info greet \S+: greeting \{"name":"Ada"\}$/m);
    await up.said(/^completed greet \S+, attempt 1$/m);
    await up.said(/^completed simulate \S+, attempt 1$/m);
    await up.said(/^failed greet \S+, attempt 1: UNCLASSIFIED_ERROR nobody to greet; the job is dead_letter$/m);
    await stopped(up);
  });

  it('tells programs the types of the modules, and what fails there', async () => {
    const up = await startUp('./handlers.ts', '--json');
    const { jobId } = await submit('greet', '{"name":""}');
    await up.said(/"event":"failed"/);
    const events = (await stopped(up)).map((line) => JSON.parse(line));
    expect(events).toMatchObject([
      { event: 'up', types: ['greet'] },
      { event: 'failed', jobId, type: 'greet', state: 'dead_letter', failure: { message: 'nobody to greet' } },
      { event: 'stopping' },
      { event: 'stopped' },
    ]);
  });

  it('says which module is missing, and stops', async () => {
    const cwd = folderWith({});
    const { code, stderr } = await run(['up', '--port', '0', 'nowhere.ts'], { ...here(), cwd });
    expect(code).toBe(1);
    expect(stderr).toMatch(/There is no file \S+nowhere\.ts\. Give the path of a module/);
  });
});

describe('the lines of up about jobs', () => {
  const MANY = '{"duration_ms":0,"spawn":{"count":60}}';

  it('are one for each of the first jobs, and then counts', async () => {
    const up = await startUp();
    await submit('simulate', MANY);
    const single = () => up.stdout.match(/^completed simulate /gm)?.length ?? 0;
    const counted = () => [...up.stdout.matchAll(/^and (\d+) completed, 0 failed/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    await until('every job is in a line or in a count', () => single() + counted(), 61);
    expect(single()).toBeGreaterThanOrEqual(10);
    expect(counted()).toBeGreaterThan(0);
    await stopped(up);
  });

  it.each([['--quiet'], ['--json']])('are left out with %s', async (option) => {
    const up = await startUp(option);
    expect(await submit('simulate', '{"duration_ms":1}', '--wait')).toMatchObject({ state: 'completed' });
    expect((await stopped(up)).join('\n')).not.toMatch(/completed|attempt/);
  });
});
