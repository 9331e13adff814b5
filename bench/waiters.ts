/**
 * What callers of `waitFor` cost: the rate at which no-op jobs are submitted and drained, without callers and with 5 000 of them.
 * The callers wait for jobs of the run, or for jobs that do not end, in the working process or in one that does not work.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Millrace } from '../src/index.ts';
import { openScratch } from './scratch-database.ts';
import { median } from './workload.ts';

const JOBS = Number(process.env.JOBS ?? 20_000);
const CALLERS = Number(process.env.CALLERS ?? 5_000);
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const BATCH = 1_000;

type Case = { name: string; callers: 'none' | 'here' | 'apart'; waitsFor: 'run' | 'others' };
type Order = { url: string; ids: string[] };

const CASES: readonly Case[] = [
  { name: 'no callers', callers: 'none', waitsFor: 'run' },
  { name: 'callers here, for jobs of the run', callers: 'here', waitsFor: 'run' },
  { name: 'callers here, for jobs that do not end', callers: 'here', waitsFor: 'others' },
  { name: 'callers apart, for jobs of the run', callers: 'apart', waitsFor: 'run' },
  { name: 'callers apart, for jobs that do not end', callers: 'apart', waitsFor: 'others' },
];

async function submit(millrace: Millrace, count: number, delay?: string): Promise<string[]> {
  const ids: string[] = [];
  for (let sent = 0; sent < count; sent += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - sent) }, (_, i) => ({
      type: 'noop',
      payload: { i },
      delay,
    }));
    for (const { jobId } of (await millrace.submitMany(batch)).results) ids.push(jobId as string);
  }
  return ids;
}

function waitForAll(millrace: Millrace, ids: readonly string[], signal: AbortSignal): Promise<unknown> {
  return Promise.all(ids.map((id) => millrace.waitFor(id, { signal }).catch(() => {})));
}

async function callersApart(order: Order) {
  const child = fork(fileURLToPath(import.meta.url), ['callers']);
  child.send(order);
  await once(child, 'message');
  const answered = once(child, 'message');
  const exited = once(child, 'exit');
  return {
    answered,
    async stop() {
      child.send('stop');
      await exited;
    },
  };
}

type Rates = { drained: number; answered: number };

async function measure(url: string, { callers, waitsFor }: Case): Promise<Rates> {
  const millrace = await Millrace.open({ database: url, concurrency: 64 });
  const finished = Promise.withResolvers<void>();
  let done = 0;
  millrace.register({ type: 'noop', handler: () => {} });
  millrace.on('completed', () => {
    if (++done === JOBS) finished.resolve();
  });
  const waited = callers !== 'none' && waitsFor === 'others' ? await submit(millrace, CALLERS, '1h') : [];
  const startedMs = performance.now();
  const ids = await submit(millrace, JOBS);
  const submittedMs = performance.now() - startedMs;
  const step = Math.floor(JOBS / CALLERS);
  if (waitsFor === 'run') waited.push(...ids.filter((_, index) => index % step === 0));
  const stopping = new AbortController();
  const here = callers === 'here' ? waitForAll(millrace, waited, stopping.signal) : Promise.resolve();
  const apart = callers === 'apart' ? await callersApart({ url, ids: waited }) : null;
  const workingMs = performance.now();
  const rate = () => Math.round((JOBS / (submittedMs + performance.now() - workingMs)) * 1_000);
  await millrace.start();
  await finished.promise;
  const drained = rate();
  if (waitsFor === 'run') await Promise.all([here, apart?.answered]);
  const answered = rate();
  stopping.abort();
  await Promise.all([here, apart?.stop()]);
  await millrace.close({ grace: '5s' });
  return { drained, answered };
}

async function runCallers(): Promise<void> {
  const [{ url, ids }] = (await once(process, 'message')) as [Order];
  const millrace = await Millrace.open({ database: url });
  const stopping = new AbortController();
  process.on('message', () => stopping.abort());
  const waiting = waitForAll(millrace, ids, stopping.signal);
  process.send?.('ready');
  await waiting;
  process.send?.('answered');
  if (!stopping.signal.aborted) await once(stopping.signal, 'abort');
  await millrace.close({ grace: 0 });
  process.disconnect?.();
}

async function main(): Promise<void> {
  const scratch = await openScratch();
  const rates = new Map<string, Rates[]>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const each of CASES) {
      const measured = await measure(await scratch.fresh('waiters'), each);
      rates.set(each.name, [...(rates.get(each.name) ?? []), measured]);
    }
  }
  await scratch.close();
  const base = median((rates.get('no callers') ?? []).map(({ drained }) => drained));
  const show = (values: readonly number[]) => {
    const cost = Math.round((1 - median(values) / base) * 100);
    return `${String(median(values)).padStart(6)} jobs/s, ${String(cost).padStart(3)} % less (${values.join(', ')})`;
  };
  for (const [name, of] of rates) {
    const drained = show(of.map((each) => each.drained));
    console.log(`${name.padEnd(42)} drained ${drained}; answered ${show(of.map((each) => each.answered))}`);
  }
}

await (process.argv[2] === 'callers' ? runCallers() : main());
