// node chaos/http-faults.ts [--quick]: stops the database of a server under load, kills a server under load, and checks the ledger against
// the responses that callers got. Prints the figures, and fails if one is out of range.
import { parseArgs } from 'node:util';
import { crashDatabase } from './database-crash.ts';
import type { Judgement } from './judge.ts';
import { createPostgres } from './postgres-server.ts';
import { Program } from './program.ts';
import { killServer } from './server-kill.ts';

type Figure = { fault: string; figure: string; measured: string; ok: boolean };

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const size = values.quick ? { callers: 32, jobs: 500, downMs: 4_000, kills: 3 } : { callers: 64, jobs: 2_000, downMs: 15_000, kills: 20 };
const figures: Figure[] = [];
const say = (line: string) => process.stderr.write(`${line}\n`);

async function withServer(work: (postgres: Awaited<ReturnType<typeof createPostgres>>, program: Program) => Promise<void>) {
  const postgres = await createPostgres();
  const program = new Program(postgres.url);
  const cleanUp = async () => {
    await program.kill();
    await postgres.remove();
  };
  const onSignal = () => void cleanUp().finally(() => process.exit(1));
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    await program.start();
    await work(postgres, program);
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await cleanUp();
  }
}

function note(fault: string, figure: string, { measured, ok }: { measured: unknown; ok: boolean }): void {
  figures.push({ fault, figure, measured: String(measured), ok });
}

function noteJudgement(fault: string, { acknowledged, lost, duplicated, unfinished, violations }: Judgement): void {
  note(fault, 'acknowledged', { measured: acknowledged, ok: acknowledged > 0 });
  note(fault, 'lost = 0', { measured: lost, ok: lost === 0 });
  note(fault, 'duplicated = 0', { measured: duplicated, ok: duplicated === 0 });
  note(fault, 'not completed = 0', { measured: unfinished, ok: unfinished === 0 });
  note(fault, 'violated invariants = 0', { measured: violations.length, ok: violations.length === 0 });
  for (const { invariant, jobId, what } of violations.slice(0, 5)) console.error(`${fault}: ${invariant} ${jobId}: ${what}`);
}

const inMs = (ms: number): string => `${ms.toFixed(0)} ms`;

await withServer(async (postgres, program) => {
  const fault = 'database stopped';
  const report = await crashDatabase({ postgres, program, say, ...size });
  noteJudgement(fault, report);
  const { answers, withoutRetryAfter, slowestMs, recoveryMs, exits } = report;
  const only503 = Object.keys(answers).join() === '503';
  note(fault, 'responses meanwhile: 503 only', { measured: JSON.stringify(answers), ok: only503 });
  note(fault, 'refusals without Retry-After = 0', { measured: withoutRetryAfter, ok: withoutRetryAfter === 0 });
  note(fault, 'slowest response <= 2 s', { measured: inMs(slowestMs), ok: slowestMs <= 2_000 });
  note(fault, 'back after its return <= 2 s', { measured: inMs(recoveryMs), ok: recoveryMs <= 2_000 });
  note(fault, 'program exits = 0', { measured: exits, ok: exits === 0 });
  for (const message of new Set(program.faults)) console.error(`${fault}: answered 500 for ${message}`);
});

await withServer(async (postgres, program) => {
  const fault = `kill -9 of the server, ${size.kills} times`;
  const report = await killServer({ postgres, program, say, ...size });
  noteJudgement(fault, report);
  note(fault, 'requests cut off', { measured: report.cut, ok: true });
  note(fault, 'slowest restart', { measured: inMs(report.recoveryMs), ok: true });
});

console.table(figures.map(({ ok, ...figure }) => ({ ...figure, '': ok ? 'ok' : 'MISSED' })));
process.exitCode = figures.every(({ ok }) => ok) ? 0 : 1;
