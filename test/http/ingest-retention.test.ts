import { expect, test } from 'vitest';
import { sweepObjects } from '../../src/services/ingest/orphaned-objects.ts';
import { pruneIngest, trimStreams } from '../../src/services/ingest/prune.ts';
import { settleJob } from '../../src/services/ingest/settle-job.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();
const DAY = 86_400_000;
const RETENTION = { tasksMs: 7 * DAY, ledgerMs: 30 * DAY, ledgerBytes: 1e12, logsMs: 30 * DAY, deadLettersMs: 90 * DAY };

const query = async (text: string, values: unknown[] = []) => (await server.database.maintenance.query(text, values)).rows;
const prune = async (over: object = {}) => {
  await pruneIngest(server.platform.ingest.context, { ...RETENTION, ...over });
  await trimStreams(server.platform.ingest.context, { ...RETENTION, ...over });
};
/** Until the job is gone: the pruner leaves a job alone that another loop has locked. */
const pruned = (jobId: string, over: object = {}) =>
  until(
    'the job is pruned',
    async () => {
      await prune(over);
      return isThere(jobId);
    },
    false,
  );
const isThere = async (jobId: string) => (await server.get(`/jobs/${jobId}`)).status === 200;

async function ended(urls: readonly string[] = [server.origin.file()]): Promise<string> {
  const jobId = await server.accepted({ resources: urls.map((url, index) => ({ id: `${index}`, url })) });
  await server.reached(jobId, 'completed', 'failed');
  await until(
    'it is settled',
    async () => (await query('SELECT settled_at FROM millrace.ingest_jobs WHERE id = $1', [jobId]))[0]?.settled_at !== null,
  );
  return jobId;
}

test('jobs go 30 days after their end, with their keys, and jobs that have not ended stay [FB-4.01] [FB-4.03] [C90]', async () => {
  const [old, young] = [await ended(), await ended()];
  const open = await server.accepted({ resources: [{ id: 'a', url: server.origin.file(() => {}) }] });
  await query(`UPDATE millrace.ingest_jobs SET settled_at = settled_at - interval '30 days' WHERE id = $1`, [old]);
  await query(`UPDATE millrace.ingest_jobs SET created_at = created_at - interval '300 days' WHERE id = $1`, [open]);
  await pruned(old);
  expect([await isThere(young), await isThere(open)]).toEqual([true, true]);
  expect(await query('SELECT FROM millrace.ingest_resources WHERE job_id = $1', [old])).toEqual([]);
  await server.operate('POST', `/jobs/${open}/cancel`);
});

test('beyond the cap the jobs that ended first go, and no more than needed [FB-4.04]', async () => {
  const [first, second, third] = [await ended(), await ended(), await ended()];
  await query('DELETE FROM millrace.ingest_jobs WHERE NOT id = ANY ($1)', [[first, second, third]]);
  await query('UPDATE millrace.ingest_jobs SET stored_bytes = 1000');
  await pruned(first, { ledgerBytes: 2_500 });
  expect([await isThere(second), await isThere(third)]).toEqual([true, true]);
  await prune({ ledgerBytes: 2_000 });
  expect([await isThere(second), await isThere(third)]).toEqual([true, true]);
});

test('counters stay when the tasks are gone, also of a task that went before the job ended [C90]', async () => {
  let release = () => {};
  const slow = server.origin.file((_, response) => {
    release = () => response.end('12345');
  });
  const jobId = await server.accepted({
    resources: [
      { id: 'a', url: server.origin.file('123') },
      { id: 'b', url: server.origin.status(404) },
      { id: 'c', url: slow },
    ],
  });
  await until('two have ended', async () => {
    const { resource_completed, resource_failed } = (await server.get(`/jobs/${jobId}`)).body;
    return resource_completed + resource_failed === 2;
  });
  await until('their ends are copied', async () => {
    const [noted] = await query('SELECT count(ended_state)::int4 AS n FROM millrace.ingest_resources WHERE job_id = $1', [jobId]);
    return noted?.n === 2;
  });
  // What the pruner of jobs does a week later.
  await query(
    `DELETE FROM millrace.jobs WHERE state >= 'completed' AND id IN (SELECT task_id FROM millrace.ingest_resources WHERE job_id = $1)`,
    [jobId],
  );
  expect((await server.get(`/jobs/${jobId}`)).body).toMatchObject({
    status: 'in_progress',
    resource_completed: 1,
    resource_failed: 1,
    last_error: { code: 'HTTP_404' },
  });
  await until('the last one waits', () => release.toString().includes('12345'));
  release();
  expect(await server.reached(jobId, 'failed')).toMatchObject({ resource_completed: 2, resource_failed: 1, bytes: 8 });
});

test('a resource that failed for good is in the stream jobs.dlq once [FB-1.64] [FB-4.07] [C60]', async () => {
  const jobId = await ended([server.origin.status(410), server.origin.file()]);
  await settleJob(server.platform.ingest.context, jobId, null);
  const entries = await server.platform.ingest.streams.read({ stream: 'jobs.dlq', jobId, from: 0, limit: 10 });
  expect(entries.map(({ body }) => body)).toMatchObject([{ resource_id: '0', state: 'failed', attempts: 1, error: { code: 'HTTP_410' } }]);
});

test('one message for each resource is in the stream jobs.tasks, and goes after 7 days [FB-1.47] [FB-4.05]', async () => {
  const jobId = await ended([server.origin.file(), server.origin.file()]);
  const read = () => server.platform.ingest.streams.read({ stream: 'jobs.tasks', jobId, from: 0, limit: 10 });
  expect((await read()).map(({ body }) => body.resource_id)).toEqual(['0', '1']);
  await query(`UPDATE millrace.stream_entries SET at = at - interval '7 days' WHERE stream = 'jobs.tasks' AND job_id = $1`, [jobId]);
  await prune();
  expect(await read()).toEqual([]);
  expect((await server.get(`/jobs/${jobId}/logs`)).body.length).toBeGreaterThan(2);
});

test('objects of a submission that was never accepted are swept after an hour, and no others [C86]', async () => {
  const kept = await ended();
  const orphan = '01a00000-0000-7000-8000-000000000001';
  const { store } = server.platform.ingest.context;
  for (const name of ['metadata', 'manifest'])
    await store.put({ bucket: 'fetchbox', key: `manifests/default/${orphan}/${name}.json` }, Buffer.from('{}'));
  await query(`INSERT INTO millrace.ingest_intents VALUES ($1, 'fetchbox', 'default', millrace.clock() - interval '59 minutes')`, [orphan]);
  const has = (id: string) => server.objects('fetchbox').some((path) => path.includes(id));
  await sweepObjects(server.platform.ingest.context);
  expect(has(orphan)).toBe(true);
  await query(`UPDATE millrace.ingest_intents SET created_at = created_at - interval '1 minute'`);
  await sweepObjects(server.platform.ingest.context);
  expect([has(orphan), has(kept)]).toEqual([false, true]);
  expect(await query('SELECT FROM millrace.ingest_intents')).toEqual([]);
});
