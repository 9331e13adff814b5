import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';
import { publish, useProducers } from './producer-fixture.ts';

const server = useIngest({
  toml: `
[limits]
queue_size = 5
[job_types.narrow.options]
max_parallel_downloads = 1
`,
});
const producers = useProducers(() => server.databaseUrl);

test('tasks wait in the intake while the queue is full, and all are downloaded in the end, within the limit of their job', async () => {
  const client = await producers.connect(await producers.create());
  const held: ServerResponse[] = [];
  let isOpen = false;
  let most = 0;
  const url = server.origin.file((_, response) => {
    held.push(response);
    most = Math.max(most, held.filter(({ writableEnded }) => !writableEnded).length);
    if (isOpen) response.end('late');
  });
  const job_id = randomUUID();
  // Few enough that a busy machine downloads them one after the other while the test waits.
  const ids = Array.from({ length: 20 }, (_, index) => `r${index}`);
  await publish(client, ...ids.map((resource_id) => ({ job_type: 'narrow', job_id, resource_id, url })));
  await until('a download has begun', () => held.length > 0);
  const counts = async () => {
    const { rows } = await server.database.api.query(`SELECT (SELECT count(*)::int4 FROM millrace.task_intake) AS waiting,
      (SELECT coalesce(sum(resource_total), 0)::int4 FROM millrace.ingest_jobs) AS total`);
    return rows[0];
  };
  const { waiting, total } = await counts();
  expect(waiting).toBeGreaterThan(10);
  expect(waiting + total).toBe(20);
  isOpen = true;
  for (const response of held) response.end('first');
  await until('everything was downloaded', async () => {
    const { body } = await server.get('/jobs');
    const [job] = body.items;
    return [job.resource_total, job.resource_completed, job.status];
  }, [20, 20, 'completed']);
  expect(most).toBe(1);
});
