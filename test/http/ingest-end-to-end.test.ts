import { expect, test } from 'vitest';
import { type IngestSummary, registerIngestHandler } from '../../src/core/ingest/handler.ts';
import { until } from '../until.ts';
import { useIngest } from './ingest-fixture.ts';

const summaries: IngestSummary[] = [];
let failsFinalizing = 0;
/** What the last step waits for. */
let finalizing: Promise<void> = Promise.resolve();

registerIngestHandler('shop::GalleryHandler', {
  buildTasks: ({ resources }) => resources.filter(({ id }) => !id.startsWith('.')).map(({ id }) => ({ resourceId: id })),
  async finalizeJob(summary) {
    if (failsFinalizing-- > 0) throw new Error('the index is away');
    await finalizing;
    summaries.push(summary);
  },
});

const server = useIngest({
  toml: `
[job_types.gallery]
handler = "shop::GalleryHandler"
[job_types.gallery.storage]
bucket = "fetchbox-gallery"
key_prefix = "gallery/"
`,
});

test('a manifest becomes files, the operators see it completed, and the handler is called with its sums [FB-1.61] [FB-1.62] [FB-3.16]', async () => {
  const resources = [
    { id: 'one', url: server.origin.file('first file') },
    { id: 'two/three', url: server.origin.file('second') },
  ];
  const jobId = await server.accepted({ jobType: 'gallery', resources });
  const job = await server.reached(jobId, 'completed', 'failed');
  expect(job).toMatchObject({
    job_id: jobId,
    job_type: 'gallery',
    status: 'completed',
    resource_total: 2,
    resource_completed: 2,
    resource_failed: 0,
    bytes: 16,
    last_error: null,
  });
  expect(server.object('fetchbox-gallery', `gallery/${jobId}/one`).toString()).toBe('first file');
  expect(server.object('fetchbox-gallery', `gallery/${jobId}/two%2Fthree`).toString()).toBe('second');
  await until('the handler was called', () => summaries.some((each) => each.jobId === jobId));
  expect(summaries.find((each) => each.jobId === jobId)).toEqual({
    jobId,
    jobType: 'gallery',
    total: 2,
    completed: 2,
    failed: 0,
    bytes: 16,
  });
  await until('the last step has ended', async () => (await server.get(`/jobs/${jobId}`)).body.finalizer, 'completed');
  const { body } = await server.get(`/jobs/${jobId}/logs`);
  const events = body.map((line: { event: string }) => line.event);
  expect(events[0]).toBe('job.accepted');
  expect(events.filter((event: string) => event === 'resource.completed')).toHaveLength(2);
  expect(events).toContain('job.completed');
  expect(events).toContain('job.finalized');
});

test('a failed last step is retried by itself, and does not change the status [N45]', async () => {
  failsFinalizing = 1;
  // The error is shown until the next attempt has ended. That waits until the test has seen it.
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  finalizing = promise;
  const jobId = await server.accepted({ jobType: 'gallery', resources: [{ id: 'a', url: server.origin.file() }] });
  await until('the last step has failed once', async () => {
    const { status, last_error } = (await server.get(`/jobs/${jobId}`)).body;
    return status === 'completed' && last_error?.message === 'the index is away';
  });
  goOn();
  await until('the handler was called again', () => summaries.some((each) => each.jobId === jobId));
  await until('there is no error any more', async () => (await server.get(`/jobs/${jobId}`)).body.last_error, null);
});

test('the last step runs once for a job whose handler returned no task, also if the request is repeated [FB-3.15] [FB-3.16] [C129]', async () => {
  const headers = { 'x-fetchbox-idempotency-key': 'nothing to do' };
  const resources = [{ id: '.hidden', url: server.origin.file() }];
  const jobId = await server.accepted({ jobType: 'gallery', headers, resources });
  expect((await server.get(`/jobs/${jobId}`)).body).toMatchObject({ status: 'completed', resource_count: 1, resource_total: 0 });
  await until('the last step has ended', async () => (await server.get(`/jobs/${jobId}`)).body.finalizer, 'completed');
  expect(await server.accepted({ jobType: 'gallery', headers, resources })).toBe(jobId);
  const lines = (await server.get(`/jobs/${jobId}/logs?follow=true`)).body as { event: string; message: string }[];
  expect(lines.map(({ event }) => event)).toEqual(['job.accepted', 'job.completed', 'job.finalized']);
  expect(lines[1]?.message).toBe('The job has no downloads.');
  const called = summaries.filter((each) => each.jobId === jobId);
  expect(called).toEqual([{ jobId, jobType: 'gallery', total: 0, completed: 0, failed: 0, bytes: 0 }]);
});
