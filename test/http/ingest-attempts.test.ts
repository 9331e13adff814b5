import { expect, test } from 'vitest';
import { downloadAttempts } from '../../src/ledger/ingest/read-resources.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();

type Line = { event: string; resource_id?: string; details?: Record<string, unknown> };
type Resource = { id: string; attempts: number; status: string; started_at: string | null; task_id: string };

const resourceOf = async (jobId: string): Promise<Resource> => (await server.get(`/jobs/${jobId}/resources`)).body.items[0];
const attemptLines = async (jobId: string) =>
  ((await server.get(`/jobs/${jobId}/logs`)).body as Line[]).flatMap(({ event, details }) =>
    details?.attempt === undefined ? [] : [`${event} ${details.attempt}`],
  );
const change = (word: 'pause' | 'resume') =>
  server.operate('POST', `/hosts/${encodeURIComponent(server.origin.url.replace('http://', ''))}/${word}`);
const resume = () => change('resume');

/** Pauses the host, and waits until the process knows: until then it lets downloads in. */
async function pause(): Promise<void> {
  await change('pause');
  await until('the host sends downloads away', async () => {
    const probe = await server.accepted({ headers: { 'x-fetchbox-tenant': 'probe' }, resources: [{ id: 'a', url: server.origin.file() }] });
    const { task_id: taskId } = await resourceOf(probe);
    await until(
      'the probe has ended or was postponed',
      async () => (await wasSentAway(taskId)) > 0 || (await resourceOf(probe)).status === 'completed',
    );
    await server.operate('POST', `/jobs/${probe}/cancel`);
    return (await wasSentAway(taskId)) > 0;
  });
}

/** Makes every download that waits due now, so that a test need not wait for its delay. A job and its timer have the same time. */
async function hurry(): Promise<void> {
  // A row that a loop has locked is left for the next time.
  await server.database.maintenance.query(
    `WITH free AS MATERIALIZED (
       SELECT t.org_id, t.seq FROM millrace.timers t JOIN millrace.jobs j ON j.org_id = t.org_id AND j.seq = t.seq
       WHERE t.run_at > millrace.clock() FOR UPDATE SKIP LOCKED
     ), due AS (
       UPDATE millrace.timers t SET run_at = millrace.clock() FROM free f WHERE t.org_id = f.org_id AND t.seq = f.seq
       RETURNING t.org_id, t.seq, t.run_at
     )
     UPDATE millrace.jobs j SET run_at = d.run_at FROM due d WHERE j.org_id = d.org_id AND j.seq = d.seq`,
  );
}

/** Lets a download that waits wait for another hour, so that it surely waits when the test acts on it. Returns whether it did wait. */
async function holdBack(taskId: string): Promise<boolean> {
  const { rowCount } = await server.database.maintenance.query(
    `WITH held AS (
       UPDATE millrace.timers t SET run_at = millrace.clock() + interval '1 hour' FROM millrace.jobs j
       WHERE j.id = $1 AND t.org_id = j.org_id AND t.seq = j.seq RETURNING t.org_id, t.seq, t.run_at
     )
     UPDATE millrace.jobs j SET run_at = h.run_at FROM held h WHERE j.org_id = h.org_id AND j.seq = h.seq`,
    [taskId],
  );
  return rowCount === 1;
}

/** How often a download was postponed in its current round. */
async function wasSentAway(taskId: string): Promise<number> {
  const { rows } = await server.database.maintenance.query(
    `SELECT count(*)::int4 AS times FROM millrace.jobs j JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.job_seq = j.seq
     WHERE j.id = $1 AND e.reason = 'postponed' AND e.round = j.round`,
    [taskId],
  );
  return rows[0].times;
}

async function sentAway(taskId: string, times: number): Promise<void> {
  await until(`the download was postponed ${times} times`, async () => {
    await hurry();
    return (await wasSentAway(taskId)) >= times;
  });
}

async function ended(jobId: string, status: string): Promise<void> {
  await until(`the job is ${status}`, async () => {
    await hurry();
    return (await server.get(`/jobs/${jobId}`)).body.status === status;
  });
}

test('waiting for a place at the host is no attempt: not in the resource, the status, the log or the dead letter [FB-2.07] [FB-2.18] [C36]', async () => {
  await pause();
  const answers = [503, 404, 503, 200];
  const url = server.origin.file((_, response) => response.writeHead(answers.shift() ?? 200).end('content'));
  const jobId = await server.accepted({ resources: [{ id: 'a', url }] });
  const { task_id: taskId } = await resourceOf(jobId);

  await sentAway(taskId, 3);
  await until('the job is queued while its download waits', async () => (await server.get(`/jobs/${jobId}`)).body.status, 'queued');
  await until('the download has no attempt', async () => (await resourceOf(jobId)).attempts, 0);
  await until('the list shows it as queued', async () =>
    (await server.get('/jobs?status=queued')).body.items.some((job: { job_id: string }) => job.job_id === jobId),
  );
  expect(answers).toHaveLength(4);

  await resume();
  await ended(jobId, 'failed');
  expect(await resourceOf(jobId)).toMatchObject({ attempts: 2, started_at: expect.any(String) });
  expect(await attemptLines(jobId)).toEqual(['resource.started 1', 'resource.attempt_failed 1', 'resource.retried 2', 'resource.failed 2']);
  await until('the dead letter is written', async () => (await deadLetters(jobId)).length, 1);
  expect((await deadLetters(jobId))[0]).toMatchObject({ resource_id: 'a', attempts: 2 });

  // A retry by hand starts a new round. Postponements of the first one are not subtracted from it.
  await pause();
  expect((await server.operate('POST', `/jobs/${jobId}/retry`)).body).toEqual({ retried: 1 });
  await sentAway(taskId, 2);
  await until('the new round has no attempt', async () => (await resourceOf(jobId)).attempts, 0);
  await until('the job is queued again', async () => (await server.get(`/jobs/${jobId}`)).body.status, 'queued');
  await resume();
  await ended(jobId, 'completed');
  expect(await resourceOf(jobId)).toMatchObject({ attempts: 2, status: 'completed' });
  expect((await attemptLines(jobId)).slice(4)).toEqual(['resource.started 1', 'resource.attempt_failed 1', 'resource.retried 2']);
});

test('a download that was cancelled while it waited for its host has no attempt, and no org counts that of another', async () => {
  await pause();
  const jobId = await server.accepted({ headers: { 'x-fetchbox-tenant': 'waiter' }, resources: [{ id: 'a', url: server.origin.file() }] });
  const { org_id: orgId } = (await server.get(`/jobs/${jobId}`)).body;
  const { task_id: taskId } = await resourceOf(jobId);
  await sentAway(taskId, 1);
  await until('the download waits', () => holdBack(taskId));
  await server.operate('POST', `/jobs/${jobId}/cancel`);
  await ended(jobId, 'failed');
  expect(await resourceOf(jobId)).toMatchObject({ attempts: 0, started_at: null, error: { code: 'CANCELLED' } });
  const other = '0197a5b2-6a86-7b0e-9a53-1a2f3a0b7c11';
  const { maintenance } = server.database;
  expect([
    await downloadAttempts(maintenance, { orgId, jobId: taskId }),
    await downloadAttempts(maintenance, { orgId: other, jobId: taskId }),
  ]).toEqual([0, 0]);
  await resume();
});

async function deadLetters(jobId: string): Promise<Record<string, unknown>[]> {
  const { rows } = await server.database.maintenance.query(
    `SELECT body FROM millrace.stream_entries WHERE stream = 'jobs.dlq' AND job_id = $1 ORDER BY id`,
    [jobId],
  );
  return rows.map(({ body }) => body);
}
