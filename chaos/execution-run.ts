// node chaos/execution-run.ts [--jobs 10000] [--seed 1] [--time-scale 0.01]: starts a server, runs every kind of job
// many times, and checks every state change of every job. Prints how often each change occurred. Fails if one is forbidden, or if a job
// differs from the catalogue.
import { parseArgs } from 'node:util';
import { WORK_KINDS } from '../src/core/execution/kinds.ts';
import { embeddedHost } from '../src/simulator/embedded.ts';
import { runSimulation } from '../src/simulator/run.ts';
import { openReceiver } from '../src/simulator/webhook-receiver.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    'time-scale': { type: 'string', default: '0.01' },
    concurrency: { type: 'string', default: '128' },
  },
});
const timeScale = Number(values['time-scale']);
const receiver = await openReceiver();
const host = await embeddedHost({ timeScale, receiver: new URL(receiver.url('ok')).host });
try {
  const { verifier, stats, elapsedMs } = await runSimulation(host, {
    plan: {
      choice: { order: 'each', kinds: WORK_KINDS },
      clients: 20,
      jobs: Number(values.jobs),
      seed: Number(values.seed),
      farFutureMs: 0,
    },
    durationMs: null,
    pace: { concurrency: Number(values.concurrency) },
    timeScale,
    expectations: new Map(),
    receiver,
    signal: new AbortController().signal,
  });
  console.table(verifier.pairs().filter(({ isAllowed, count }) => isAllowed || count > 0));
  for (const { kind, jobId, problem } of verifier.findings.slice(0, 20)) console.log(kind, jobId, problem);
  const forbidden = verifier.pairs().filter(({ isAllowed, count }) => !isAllowed && count > 0);
  const seconds = (elapsedMs / 1_000).toFixed(1);
  console.log(`${stats.submitted} jobs in ${seconds} s: ${forbidden.length} forbidden steps, ${verifier.problemCount} problems`);
  process.exitCode = forbidden.length === 0 && verifier.problemCount === 0 ? 0 : 1;
} finally {
  await host.close();
  await receiver.close();
}
