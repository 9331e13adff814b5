// node chaos/execution-load.ts [--seconds 60] [--rate 500] [--clients 20]: submits short jobs to the execution API at a fixed rate,
// waits until they have ended, and compares every report with the responses that its client got. Prints the figures, and fails if one
// is out of range.
import { parseArgs } from 'node:util';
import { judge } from './judge.ts';
import { compareReports, submitSteadily } from './load-callers.ts';
import { MemoryWatch } from './memory-watch.ts';
import { createPostgres } from './postgres-server.ts';
import { Program } from './program.ts';

type Figure = { figure: string; measured: string; ok: boolean };

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '500' },
    clients: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
  },
});
const size = {
  seconds: Number(values.seconds),
  rate: Number(values.rate),
  clients: Number(values.clients),
  seed: Number(values.seed),
};

const SETTINGS = {
  MILLRACE_SIMULATION_TIME_SCALE: '0.01',
  MILLRACE_WORKERS_CONCURRENCY: '200',
  MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: '1000000',
};
/** Memory that the garbage collector may not have freed yet. */
const SLACK_MB = 24;

const figures: Figure[] = [];
const note = (figure: string, measured: string | number, ok: boolean) => figures.push({ figure, measured: String(measured), ok });
const inMs = (ms: number) => `${ms.toFixed(1)} ms`;
const inMb = (mb: number) => `${mb.toFixed(0)} MB`;

async function measure(url: string, program: Program): Promise<void> {
  const memory = new MemoryWatch(program.pid as number);
  const load = await submitSteadily({ url: program.url, ...size });
  const { beganMb, endedMb } = memory.stop();
  const all = load.accepted.flatMap((kinds) => [...kinds.keys()]);
  const { violations } = await judge(url, new Map(all.map((id) => [id, new Set([id])])));
  const { lost, unknown, unfinished, wrong, waitMs } = await compareReports(program.url, load);
  const submits = load.submitMs.quantiles();
  const waits = waitMs.quantiles();
  const jobs = Math.round(size.rate * size.seconds);
  const statuses = [...load.statuses].map(([status, times]) => `${status}: ${times}`).join(', ');
  note(`accepted = ${jobs}, no other answer`, statuses, all.length === jobs && load.statuses.size === 1);
  note(`rate >= ${size.rate} jobs/s`, (jobs / load.tookSeconds).toFixed(1), jobs / load.tookSeconds >= size.rate * 0.99);
  note(`with their events = ${jobs}`, waits.count, waits.count === jobs);
  note('lost = 0', lost, lost === 0);
  note('reported but not submitted = 0', unknown, unknown === 0);
  note('not ended = 0', unfinished, unfinished === 0);
  note('ended otherwise than their kind = 0', wrong, wrong === 0);
  note('violated invariants = 0', violations.length, violations.length === 0);
  note('submit p99 <= 100 ms', `${inMs(submits.p99)} (p50 ${inMs(submits.p50)}, max ${inMs(submits.max)})`, submits.p99 <= 100);
  note('queue wait p99 <= 1 s', `${inMs(waits.p99)} (p50 ${inMs(waits.p50)}, max ${inMs(waits.max)})`, waits.p99 <= 1_000);
  note('memory flat', `${inMb(beganMb)}, then ${inMb(endedMb)}`, endedMb <= beganMb * 1.1 + SLACK_MB);
  note('program exits = 0', program.exits, program.exits === 0);
}

const postgres = await createPostgres();
const program = new Program(postgres.url, SETTINGS);
try {
  await program.start();
  await measure(postgres.url, program);
} finally {
  await program.kill();
  await postgres.remove();
}
for (const message of new Set(program.faults)) console.error(`answered 500 for ${message}`);
console.table(figures.map(({ ok, ...figure }) => ({ ...figure, '': ok ? 'ok' : 'MISSED' })));
process.exitCode = figures.every(({ ok }) => ok) ? 0 : 1;
