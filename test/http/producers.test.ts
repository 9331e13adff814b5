/** Direct producers of a whole process: what they insert is downloaded, and the operators see it. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { type IngestSummary, registerIngestHandler } from '../../src/core/ingest/handler.ts';
import { openProducer } from '../../src/library/producer.ts';
import { importJob } from '../../src/services/ingest/import-jobs.ts';
import { inTime, until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';
import { type Published, publish, useProducers } from './producer-fixture.ts';

const summaries: IngestSummary[] = [];
registerIngestHandler('shop::Published', { finalizeJob: (summary) => void summaries.push(summary) });

const server = useIngest({
  toml: `
[job_types.gallery]
handler = "shop::Published"
default_headers = { "X-Shop" = "gallery", "X-Other" = "default" }
[job_types.gallery.storage]
bucket = "published-gallery"
key_prefix = "images/"
`,
});
const producers = useProducers(() => server.databaseUrl);

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type View = any;

/** The ledger's job of a producer's job id, once its row is there. */
async function jobOf(producerJobId: string, isWanted: (job: View) => boolean = () => true): Promise<View> {
  let found: View;
  await until(`the job ${producerJobId} is in the ledger as wanted`, async () => {
    const { body } = await server.get('/jobs?limit=200');
    found = body.items.find((job: View) => job.producer_job_id === producerJobId);
    return found !== undefined && isWanted(found);
  });
  return found;
}

const hasEnded = ({ status }: View): boolean => status === 'completed' || status === 'failed';

async function linesOf(jobId: string): Promise<View[]> {
  return (await server.get(`/jobs/${jobId}/logs`)).body;
}

async function intakeIsEmpty(): Promise<void> {
  await until('the intake is empty', async () => {
    const { rows } = await server.database.api.query('SELECT count(*)::int4 AS n FROM millrace.task_intake');
    return rows[0].n === 0;
  });
}

test('rows of a producer become a job of its org, with the id of the ledger, and are downloaded [FB-5.02] [FB-5.04] [FB-5.07] [C89] [C02]', async () => {
  const producer = await producers.create();
  const client = await producers.connect(producer);
  const seen: string[] = [];
  const one = server.origin.file((request, response) => {
    seen.push(`${request.headers['x-shop']} ${request.headers['x-other']}`);
    response.end('first file');
  });
  const jobId = randomUUID();
  const common = { job_type: 'gallery', job_id: jobId, manifest_key: 's3://mine/manifest.json' };
  await publish(
    client,
    { ...common, resource_id: 'one', url: one, headers: { 'x-other': 'own' }, tags: { album: 'summer' } },
    { ...common, resource_id: '__proto__', url: server.origin.file('second'), storage: { key: 'elsewhere/two' } },
  );
  const job = await jobOf(jobId, (each) => hasEnded(each) && each.resource_total === 2);
  expect(job).toMatchObject({
    job_type: 'gallery',
    status: 'completed',
    org: producer.org,
    org_id: producer.orgId,
    resource_completed: 2,
    bytes: 16,
    manifest_key: 's3://mine/manifest.json',
    producer: producer.role,
  });
  expect(job.job_id).not.toBe(jobId);
  expect(job.job_id[14]).toBe('7');
  expect(seen).toEqual(['gallery own']);
  expect(server.object('published-gallery', `images/${job.job_id}/one`).toString()).toBe('first file');
  expect(server.object('published-gallery', 'elsewhere/two').toString()).toBe('second');
  await until('the handler was called with the sums', () => summaries.some((each) => each.jobId === job.job_id && each.total === 2));
});

test('tasks of a producer and of a request are alike: payload, policy, queue and the entry of jobs.tasks [FB-5.03]', async () => {
  const producer = await producers.create();
  const client = await producers.connect(producer);
  const task = { url: server.origin.file(), headers: { 'x-other': 'own' }, tags: { album: 'a' } };
  const requested = await server.accepted({ jobType: 'gallery', resources: [{ id: 'same', ...task }] });
  const jobId = randomUUID();
  await publish(client, { job_type: 'gallery', job_id: jobId, resource_id: 'same', ...task });
  const published = (await jobOf(jobId)).job_id;
  const read = async (id: string) => {
    const { rows } = await server.database.api.query(
      `SELECT j.type_name AS type, j.queue, j.priority, j.policy_id, j.payload, e.body FROM millrace.ingest_resources r
       JOIN (SELECT id, job_type AS type_name, queue, priority, policy_id, payload FROM millrace.jobs) j ON j.id = r.task_id
       JOIN millrace.stream_entries e ON e.job_id = r.job_id AND e.stream = 'jobs.tasks' WHERE r.job_id = $1`,
      [id],
    );
    expect(rows).toHaveLength(1);
    const text = JSON.stringify(rows[0]).replaceAll(id, 'JOB').replaceAll(rows[0].body.task_id, 'TASK');
    return JSON.parse(text);
  };
  expect(await read(published)).toEqual(await read(requested));
});

test('resource_total counts what has come so far, and a job that has ended opens again for more [FB-6.02] [C89]', async () => {
  const client = await producers.connect(await producers.create());
  const jobId = randomUUID();
  const task = (id: string): Published => ({ job_type: 'gallery', job_id: jobId, resource_id: id, url: server.origin.file() });
  await publish(client, task('a'));
  const first = await jobOf(jobId, (job) => hasEnded(job) && job.finalizer === 'completed');
  expect(first).toMatchObject({ resource_total: 1, status: 'completed' });
  await publish(client, task('b'), { ...task('c'), url: server.origin.status(404) });
  const second = await jobOf(jobId, (job) => hasEnded(job) && job.resource_total === 3);
  expect(second).toMatchObject({ job_id: first.job_id, status: 'failed', resource_completed: 2, resource_failed: 1 });
  await until('the handler was called for both ends', () => summaries.some((each) => each.jobId === first.job_id && each.total === 3));
  expect((await linesOf(first.job_id)).map(({ event }) => event)).toContain('job.reopened');
});

test('the same resource again is ignored with a line in the log; other ids are never merged [FB-5.06]', async () => {
  const client = await producers.connect(await producers.create());
  const jobId = randomUUID();
  const url = server.origin.file();
  const task = { job_type: 'gallery', job_id: jobId, resource_id: 'a', url };
  await publish(client, task, { ...task, resource_id: 'b' }, task);
  const job = await jobOf(jobId, (each) => hasEnded(each) && each.resource_total === 2);
  await intakeIsEmpty();
  expect((await linesOf(job.job_id)).filter(({ event }) => event === 'task.repeated')).toMatchObject([{ level: 'warn', resource_id: 'a' }]);
});

test('tasks without a job id are one job for each transaction', async () => {
  const producer = await producers.create();
  const client = await producers.connect(producer);
  const task = (id: string): Published => ({ job_type: 'gallery', resource_id: id, url: server.origin.file() });
  await client.query('BEGIN');
  await publish(client, task('a'), task('b'));
  await client.query('COMMIT');
  await publish(client, task('a'));
  await intakeIsEmpty();
  const { body } = await server.get('/jobs?limit=200');
  const totals = body.items.filter((job: View) => job.producer === producer.role).map((job: View) => job.resource_total);
  expect(totals.sort()).toEqual([1, 2]);
});

test('a task that cannot be a download is a failed resource, and those behind it are downloaded [FB-5.05] [C89]', async () => {
  const client = await producers.connect(await producers.create());
  const jobId = randomUUID();
  const good = { job_type: 'gallery', job_id: jobId, resource_id: 'good', url: server.origin.file() };
  const wrong: Published[] = [
    { ...good, resource_id: 'no url', url: null },
    { ...good, resource_id: '' },
    { ...good, resource_id: null },
    { ...good, resource_id: 'x'.repeat(129) },
    { ...good, resource_id: 'header', headers: { 'X-A': 'a\r\nHost: evil' } },
    { ...good, resource_id: 'headers', headers: ['X-A', 'a'] },
    { ...good, resource_id: 'tags', tags: { n: 1 } },
    { ...good, resource_id: 'storage', storage: ['bucket'] },
    { ...good, resource_id: 'bucket', storage: { bucket: 7 } },
  ];
  await publish(client, ...wrong, { ...good, resource_id: 'not a url', url: 'not a url' }, good);
  const job = await jobOf(jobId, (each) => hasEnded(each) && each.resource_total === wrong.length + 2);
  expect(job).toMatchObject({ status: 'failed', resource_completed: 1, resource_failed: wrong.length + 1 });
  const lines = await linesOf(job.job_id);
  expect(lines.filter(({ event }) => event === 'task.refused')).toHaveLength(wrong.length);
  const text = `SELECT body FROM millrace.stream_entries WHERE stream = 'jobs.dlq' AND job_id = $1`;
  const codes = async () => {
    const { rows } = await server.database.api.query(text, [job.job_id]);
    return new Map(rows.map(({ body }) => [body.resource_id, body.error.code]));
  };
  await until('the failed download is in the stream', async () => (await codes()).has('not a url'));
  expect((await codes()).get('header')).toBe('INVALID_TASK');
  expect((await codes()).get('not a url')).toBe('INVALID_URL');
});

test('a job type that is not configured, or cannot be a name, fails its own tasks only', async () => {
  const client = await producers.connect(await producers.create());
  const url = server.origin.file();
  const types = ['missing', '../../etc', '__proto__', '', null];
  const jobs = types.map((job_type) => ({ job_type, job_id: randomUUID(), resource_id: 'a', url }));
  const good = { job_type: 'default', job_id: randomUUID(), resource_id: 'a', url };
  await publish(client, ...jobs, good);
  expect(await jobOf(good.job_id, hasEnded)).toMatchObject({ status: 'completed' });
  for (const { job_type, job_id } of jobs) {
    const job = await jobOf(job_id, hasEnded);
    expect(job).toMatchObject({ status: 'failed', resource_failed: 1, last_error: { code: 'UNSUPPORTED_JOB_TYPE' } });
    expect(job.job_type).toBe(job_type === 'missing' ? 'missing' : 'invalid');
  }
});

test('the library publishes with the URL of a producer, for its org [FB-5.01] [FB-5.09]', async () => {
  const producer = await producers.create();
  const opened = openProducer({ database: producer.url });
  onTestFinished(() => opened.close());
  const tasks = Array.from({ length: 450 }, (_, index) => ({ resourceId: `r${index}`, url: server.origin.file() }));
  const { jobId, count } = await opened.publishTasks(tasks, { jobType: 'default', manifestKey: 'mine/manifest.json' });
  expect(count).toBe(450);
  const job = await jobOf(jobId, (each) => each.resource_total === 450);
  expect(job).toMatchObject({ org: producer.org, producer: producer.role, manifest_key: 'mine/manifest.json' });
  const bad = opened.publishTasks([{ resourceId: 'a\0', url: 'x' }], { jobType: 'default' });
  await expect(bad).rejects.toMatchObject({ code: 'INVALID_REQUEST', message: expect.stringContaining('NUL') });
  await expect(opened.publishTasks([], { jobType: 'default' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  const misspelt = { resourceId: 'a', url: 'x', header: {} };
  await expect(opened.publishTasks([misspelt], { jobType: 'default' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});

test('two orgs may use the same job id: each has its own job [C89]', async () => {
  const jobId = randomUUID();
  const both = [await producers.create(), await producers.create()];
  for (const producer of both) {
    const client = await producers.connect(producer);
    await publish(client, { job_type: 'default', job_id: jobId, resource_id: 'a', url: server.origin.file() });
  }
  await until(
    'each org has its job',
    async () => {
      const { body } = await server.get('/jobs?limit=200');
      const jobs = body.items.filter((job: View) => job.producer_job_id === jobId);
      return jobs.map((job: View) => job.org_id).sort();
    },
    both.map(({ orgId }) => orgId).sort(),
  );
});

test('the owner of the schema names the org itself, and without one the row is refused', async () => {
  const owner = new pg.Client({ connectionString: server.databaseUrl });
  await owner.connect();
  onTestFinished(() => owner.end());
  const refused = publish(owner, { job_type: 'default', resource_id: 'a', url: 'http://127.0.0.1/' });
  await expect(refused).rejects.toMatchObject({ code: '42501', message: expect.stringContaining('is not a producer') });
});

test('an exported job of a producer can be imported, with and without a manifest key [FB-4.08]', async () => {
  const producer = await producers.create();
  const client = await producers.connect(producer);
  for (const manifest_key of ['any text', null]) {
    const job_id = randomUUID();
    await publish(client, { job_type: 'default', job_id, resource_id: 'a', url: server.origin.file(), manifest_key });
    const job = await jobOf(job_id, hasEnded);
    await server.database.api.query('DELETE FROM millrace.ingest_jobs WHERE id = $1', [job.job_id]);
    expect(await importJob(server.database, JSON.stringify(job))).toBe('imported');
    const again = (await server.get(`/jobs/${job.job_id}`)).body;
    expect(again).toMatchObject({ status: 'completed', producer: producer.role, manifest_key, resource_total: 1 });
  }
});

test('an insert wakes the intake', async () => {
  const client = await producers.connect(await producers.create());
  const { engine } = server.platform;
  const wake = engine.onIntake;
  const { promise, resolve } = Promise.withResolvers<void>();
  engine.onIntake = () => {
    resolve();
    wake();
  };
  onTestFinished(() => {
    engine.onIntake = wake;
  });
  await publish(client, { job_type: 'default', resource_id: 'a', url: server.origin.file() });
  await inTime('the intake was woken', promise, () => 'no hint');
});
