import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

type Pair = { readonly owner: Caller; readonly stranger: Caller };

/** Who may not see the jobs of the owner, although each may do everything with its own. */
const STRANGERS: readonly (readonly [string, () => Promise<Pair>])[] = [
  ['another org', async () => ({ owner: await queue.caller(), stranger: await queue.caller() })],
  [
    'another project of the org',
    async () => {
      const org = await queue.caller();
      return { owner: await org.inProject(randomUUID()), stranger: await org.inProject(randomUUID()) };
    },
  ],
  [
    'the org without a project, for a key of a project',
    async () => {
      const owner = await queue.caller();
      return { owner, stranger: await owner.inProject(randomUUID()) };
    },
  ],
];

const failing = () => {
  throw new Error('secret of the owner');
};

describe.each(STRANGERS)('jobs of %s', (_, meet) => {
  it.each([
    ['read', 'GET', '', undefined],
    ['read with all that belongs to it', 'GET', '?include_result=true&include_history=true', undefined],
    ['followed', 'GET', '/events', undefined],
    ['explained', 'GET', '/explain', undefined],
    ['inspected for its failure', 'GET', '/failure', undefined],
    ['cancelled', 'POST', '/cancel', {}],
    ['retried', 'POST', '/retry', {}],
    ['changed', 'PATCH', '', { priority: 'LOW' }],
  ] as const)('cannot be %s, whatever the key may do', async (_, method, path, body) => {
    const { owner, stranger } = await meet();
    const waiting = await owner.submit({ delay: 'PT1H' });
    const failed = await owner.act(failing, { max_attempts: 1 });
    await owner.reached(failed, 'FAILED', 'DEAD_LETTER');
    for (const jobId of [waiting, failed]) {
      const before = await owner.get(`/jobs/${jobId}`, { include_history: 'true' });
      const [at, search] = path.split('?');
      const refused = await stranger.send(method, `/jobs/${jobId}${at}`, body, { search: search === undefined ? '' : `?${search}` });
      expect(refused.status).toBe(404);
      expect(refused.body.code).toBe('NOT_FOUND');
      expect((await owner.get(`/jobs/${jobId}`, { include_history: 'true' })).body).toEqual(before.body);
    }
  });

  it('are in no list, count, failure search or mass cancellation', async () => {
    const { owner, stranger } = await meet();
    const type = `listed-${randomUUID()}`;
    const jobId = await owner.submit({ type, delay: 'PT1H', tags: { team: 'a' } });
    const failed = await owner.act(failing, { max_attempts: 1 });
    await owner.reached(failed, 'FAILED', 'DEAD_LETTER');
    const ownJob = await stranger.submit({ type, delay: 'PT1H', tags: { team: 'a' } });
    for (const order of ['CREATED_DESC', 'CREATED_ASC', 'UPDATED_DESC']) {
      for (const filter of [{}, { types: [type] }, { tags: { team: 'a' } }, { states: ['DELAYED'] }, { priorities: ['NORMAL'] }]) {
        const { body: found } = await stranger.post('/jobs/search', { ...filter, order });
        expect(found.jobs.map(({ job_id }: { job_id: string }) => job_id)).toEqual([ownJob]);
        expect(found.total_count).toBe(1);
      }
    }
    const failures = (await stranger.post('/failures/search', {})).body;
    expect([failures.failures, failures.total_count, failures.by_code]).toEqual([[], 0, {}]);
    expect((await stranger.post('/jobs/cancel', { job_ids: [jobId] })).body).toMatchObject({ cancelled: 0, failed: 1 });
    expect((await stranger.post('/jobs/cancel', { job_ids: [jobId], dry_run: true })).body).toMatchObject({ cancelled: 0, failed: 1 });
    const filter = { states: ['DELAYED'] };
    expect((await stranger.post('/jobs/cancel', { filter, dry_run: true })).body).toMatchObject({ requested: 1 });
    expect((await stranger.post('/jobs/cancel', { filter })).body).toMatchObject({ requested: 1, cancelled: 1 });
    expect(await owner.state(jobId)).toBe('DELAYED');
    expect((await owner.post('/failures/search', {})).body.total_count).toBe(1);
  });

  it('send no event', async () => {
    const { owner, stranger } = await meet();
    const first = await owner.firstEvent('/events', () => owner.submit({ delay: 'PT1H' }));
    expect(first.status).toBe(200);
    let ownJob = '';
    const event = await stranger.firstEvent('/events', async () => {
      await owner.submit({ delay: 'PT1H' });
      ownJob = await stranger.submit({ delay: 'PT1H' });
    });
    expect(event.body.job_id).toBe(ownJob);
  });

  it('are no dependencies, and no cursor of their owner fits', async () => {
    const { owner, stranger } = await meet();
    const jobId = await owner.submit({ delay: 'PT1H' });
    await owner.submit({ delay: 'PT1H' });
    // More ids than a job may have, all the same one, are still looked up.
    for (const depends_on of [[jobId], Array(1_001).fill(jobId.toUpperCase())]) {
      const submission = { type: 'after', payload: {}, depends_on };
      const refused = await stranger.post('/jobs', submission);
      expect(refused.status).toBe(400);
      expect(refused.body.details[0].code).toBe('DEPENDENCY_NOT_FOUND');
      const batch = await stranger.post('/jobs/batch', { jobs: [submission, { type: 'alone', payload: {} }], atomic: false });
      expect(batch.body).toMatchObject({ accepted: 1, rejected: 1 });
    }
    const { next_cursor: cursor } = (await owner.get('/jobs', { limit: '1' })).body;
    expect((await stranger.get('/jobs', { limit: '1', cursor })).status).toBe(400);
  });
});

it('a key of a project reaches the jobs of its project, and sees no statistics of the whole org', async () => {
  const org = await queue.caller();
  const [projectId, type] = [randomUUID(), `of-project-${randomUUID()}`];
  const bound = await org.inProject(projectId);
  const byOrg = await org.submit({ type, project_id: projectId, delay: 'PT1H' });
  const byKey = await bound.submit({ type, delay: 'PT1H', depends_on: [byOrg] });
  const found = (await bound.get('/jobs', { types: type })).body;
  expect(found.jobs.map(({ job_id }: { job_id: string }) => job_id)).toEqual([byKey, byOrg]);
  expect((await bound.get(`/jobs/${byOrg}`)).body.project_id).toBe(projectId);
  expect((await org.get(`/jobs/${byKey}`)).body.project_id).toBe(projectId);
  const stats = await bound.get('/stats');
  expect([stats.status, stats.body.details[0].code]).toEqual([403, 'PROJECT_KEY']);
  expect((await org.get('/stats')).status).toBe(200);
  expect((await bound.post(`/jobs/${byKey}/cancel`, {})).body.status).toBe('CANCELLED');
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
