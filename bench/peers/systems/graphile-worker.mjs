// With what its page on performance recommends: a local queue, and completions in batches.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

const logger = new Logger(() => () => {});
const maxPoolSize = 12;

export async function open({ pgUrl }) {
  const pool = new pg.Pool({ connectionString: pgUrl, max: maxPoolSize });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  let runner;
  return {
    submit: (payload) => utils.addJob('noop', payload),
    submitBatch: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: 'noop', payload }))),
    async work(onJob, { concurrency }) {
      const localQueue = { size: 500, refetchDelay: { durationMs: 10 } };
      const batches = { completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      const worker = { concurrentJobs: concurrency, maxPoolSize, pollInterval: 1_000, localQueue, ...batches };
      const options = { pgPool: pool, logger, concurrency, noHandleSignals: true, preset: { worker } };
      runner = await run({ ...options, taskList: { noop: (payload) => onJob(payload) } });
    },
    async close() {
      await runner?.stop();
      await utils.release();
      await pool.end();
    },
  };
}
