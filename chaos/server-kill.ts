import { Callers } from './callers.ts';
import { type Judgement, judge } from './judge.ts';
import type { PostgresServer } from './postgres-server.ts';
import type { Program } from './program.ts';

export type KillReport = Judgement & {
  kills: number;
  /** Requests that got no response. */
  cut: number;
  /** From the kill to the next acknowledged job, the start of the program included. */
  recoveryMs: number;
};

export type KillParams = {
  postgres: PostgresServer;
  program: Program;
  callers: number;
  kills: number;
  /** Acknowledged before each kill. */
  jobs: number;
  say?(line: string): void;
};

/** Repeatedly kills the server under load with kill -9, and restarts it. */
export async function killServer({ postgres, program, ...params }: KillParams): Promise<KillReport> {
  const callers = new Callers(() => program, params.callers);
  let recoveryMs = 0;
  for (let kill = 0; kill < params.kills; kill++) {
    await callers.untilAcknowledged(params.jobs);
    const killedMs = performance.now();
    await program.kill();
    await program.start();
    await callers.untilAcknowledged(1);
    recoveryMs = Math.max(recoveryMs, performance.now() - killedMs);
    params.say?.(`kill ${kill + 1} of ${params.kills}, ${callers.acknowledged.size} jobs acknowledged`);
  }
  await callers.stop();
  params.say?.('until all of them have ended ...');
  const cut = callers.answers.filter(({ status }) => status === 0).length;
  return { ...(await judge(postgres.url, callers.acknowledged)), kills: params.kills, cut, recoveryMs };
}
