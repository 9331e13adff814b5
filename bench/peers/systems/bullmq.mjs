import { createPostgresBackend, Queue, setDefaultBackendFactory, Worker } from 'bullmq';

/** On Redis where a port is given, else on its PostgreSQL backend. */
export async function open({ pgUrl, redisPort }) {
  if (redisPort === undefined) setDefaultBackendFactory(createPostgresBackend);
  const connection =
    redisPort === undefined
      ? { connectionString: pgUrl, max: 12, migrate: true }
      : { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null };
  const queue = new Queue('noop', { connection, defaultJobOptions: { removeOnComplete: false } });
  await queue.waitUntilReady();
  let worker;
  return {
    submit: (payload) => queue.add('noop', payload),
    submitBatch: (payloads) => queue.addBulk(payloads.map((data) => ({ name: 'noop', data }))),
    async work(onJob, { concurrency }) {
      worker = new Worker('noop', (job) => onJob(job.data), { connection, concurrency });
      worker.on('error', () => {});
    },
    async close() {
      await worker?.close(true);
      await queue.close();
    },
  };
}
