// Workers that fetch many jobs at once: the fastest documented way to work through a queue.
import { PgBoss } from 'pg-boss';

const WORKERS = 4;

export async function open({ pgUrl }) {
  const boss = new PgBoss({ connectionString: pgUrl, max: 12, supervise: false, schedule: false });
  boss.on('error', (error) => console.error('pg-boss:', error.message));
  await boss.start();
  await boss.createQueue('noop');
  return {
    submit: (payload) => boss.send('noop', payload),
    submitBatch: (payloads) =>
      boss.insert(
        'noop',
        payloads.map((data) => ({ data })),
      ),
    async work(onJob) {
      const options = { batchSize: 500, pollingIntervalSeconds: 0.5 };
      const handler = async (jobs) => {
        for (const job of jobs) await onJob(job.data);
      };
      for (let worker = 0; worker < WORKERS; worker++) await boss.work('noop', options, handler);
    },
    close: () => boss.stop({ graceful: false, close: true }),
  };
}
