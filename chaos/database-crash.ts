import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, Callers } from './callers.ts';
import { type Judgement, judge } from './judge.ts';
import type { PostgresServer } from './postgres-server.ts';
import type { Program } from './program.ts';

export type CrashReport = Judgement & {
  /** Responses during the outage of the database, by status. */
  answers: Record<number, number>;
  withoutRetryAfter: number;
  slowestMs: number;
  /** The time from the first accepted database connection to the next acknowledged job. */
  recoveryMs: number;
  exits: number;
};

export type CrashParams = {
  postgres: PostgresServer;
  program: Program;
  callers: number;
  /** Acknowledged before the crash and again after it. */
  jobs: number;
  downMs: number;
  say?(line: string): void;
};

/** Crashes the database under load, waits, and restarts it. */
export async function crashDatabase({ postgres, program, ...params }: CrashParams): Promise<CrashReport> {
  const callers = new Callers(() => program, params.callers);
  await callers.untilAcknowledged(params.jobs);
  params.say?.(`the database goes away for ${params.downMs / 1_000} s ...`);
  const stoppingMs = performance.now();
  await postgres.crash();
  const downMs = performance.now();
  await delay(params.downMs);
  // On a busy machine no caller may have met the outage yet.
  while (!callers.answers.some(({ atMs, tookMs }) => atMs - tookMs > downMs)) await delay(5);
  const startingMs = performance.now();
  await postgres.start();
  const upMs = performance.now();
  params.say?.('it is back ...');
  await callers.untilAcknowledged(params.jobs);
  await callers.stop();
  params.say?.('until all that was acknowledged has ended ...');
  const isRefusal = ({ status }: Answer) => status !== 200 && status !== 202;
  const sinceStop = callers.answers.filter(({ atMs }) => atMs > stoppingMs);
  const whileDown = sinceStop.filter(({ atMs, tookMs }) => atMs - tookMs > downMs && atMs < startingMs);
  const next = callers.answers.find((answer) => answer.atMs > upMs && !isRefusal(answer));
  return {
    ...(await judge(postgres.url, callers.acknowledged)),
    answers: countBy(whileDown),
    withoutRetryAfter: sinceStop.filter((answer) => isRefusal(answer) && !answer.hasRetryAfter).length,
    slowestMs: Math.max(...sinceStop.map(({ tookMs }) => tookMs)),
    recoveryMs: (next?.atMs ?? Number.POSITIVE_INFINITY) - upMs,
    exits: program.exits,
  };
}

function countBy(answers: readonly Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
