import { expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

it.each([
  ['read', 'GET', '', undefined],
  ['explained', 'GET', '/explain', undefined],
  ['inspected for its failure', 'GET', '/failure', undefined],
  ['cancelled', 'POST', '/cancel', {}],
  ['retried', 'POST', '/retry', {}],
  ['changed', 'PATCH', '', { priority: 'LOW' }],
] as const)('a job of another org cannot be %s, whatever the key may do', async (_, method, path, body) => {
  const [owner, stranger] = [await queue.caller(), await queue.caller()];
  const jobId = await owner.submit({ delay: 'PT1H' });
  const before = await owner.get(`/jobs/${jobId}`, { include_history: 'true' });
  const refused = await stranger.send(method, `/jobs/${jobId}${path}`, body);
  expect(refused.status).toBe(404);
  expect(refused.body.code).toBe('NOT_FOUND');
  expect((await owner.get(`/jobs/${jobId}`, { include_history: 'true' })).body).toEqual(before.body);
});

it('lists, counts and mass cancellation of an org never reach the jobs of another', async () => {
  const [owner, stranger] = [await queue.caller(), await queue.caller()];
  const jobId = await owner.submit({ delay: 'PT1H' });
  const { body: found } = await stranger.get('/jobs');
  expect([found.jobs, found.total_count]).toEqual([[], 0]);
  await stranger.post('/jobs/cancel', { job_ids: [jobId] });
  await stranger.post('/jobs/cancel', { filter: { states: ['DELAYED'] } });
  expect(await owner.state(jobId)).toBe('DELAYED');
});

it('a key without the scope of an operation is refused before the job is looked for', async () => {
  const owner = await queue.caller();
  const jobId = await owner.submit({ delay: 'PT1H' });
  const reader = await owner.with('jobs:read');
  expect((await reader.get(`/jobs/${jobId}`)).status).toBe(200);
  expect((await reader.post(`/jobs/${jobId}/cancel`, {})).status).toBe(403);
  expect((await (await owner.with('jobs:write')).get(`/jobs/${jobId}`)).status).toBe(403);
  expect((await queue.nobody().get(`/jobs/${jobId}`)).status).toBe(401);
});
