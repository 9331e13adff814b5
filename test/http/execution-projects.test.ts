import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { createKey } from '../../src/services/access/create-key.ts';
import { newProject } from '../ledger/new-project.ts';
import { TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();

/** An org and keys of two of its projects. */
async function twoProjects(): Promise<{ org: TestClient; owner: TestClient; other: TestClient }> {
  const orgId = await server.ledger.newOrg();
  const project = () => newProject(server.ledger.db, orgId);
  const keyed = async (projectId: string | null) => {
    const { key } = await createKey(server.ledger.db, { orgId, projectId });
    return new TestClient(server, { clientId: orgId, key });
  };
  return { org: await keyed(null), owner: await keyed(await project()), other: await keyed(await project()) };
}

it('a job of another project is absent, whatever is asked of it, and stays as it was', async () => {
  const { org, owner, other } = await twoProjects();
  const waiting = await owner.submit({ type: 'DEFERRED', execution_at: '2040-01-15T10:30:00Z' });
  const failed = await owner.submit({ work_kind: 'FAIL_IMMEDIATE' });
  await owner.reached(failed, 'FAILED');
  for (const id of [waiting, failed]) {
    const row = await server.ledger.rowOf({ orgId: org.clientId, id });
    const answers = [
      await other.get(`/jobs/${id}`),
      await other.get(`/jobs/${id}/report`),
      await other.post(`/jobs/${id}/cancel`),
      await other.post(`/jobs/${id}/retry`),
    ];
    for (const { status, body } of answers) expect([status, body.code]).toEqual([404, 'RFA_JOB_NOT_FOUND']);
    expect(await server.ledger.rowOf({ orgId: org.clientId, id })).toEqual(row);
    expect((await org.get(`/jobs/${id}`)).status).toBe(200);
  }
});

it('lists and reports show the jobs of the project alone', async () => {
  const { org, owner, other } = await twoProjects();
  const [id, own] = [await owner.submit(), await other.submit()];
  await owner.reached(id, 'SUCCEEDED');
  await other.reached(own, 'SUCCEEDED');
  expect((await other.get('/jobs')).body.jobs).toMatchObject([{ job_id: own }]);
  expect((await other.get('/jobs', { ids: `${id},${own}` })).body.jobs).toMatchObject([{ job_id: own }]);
  expect((await other.get('/reports', { events: 'true' })).body.reports).toMatchObject([{ job_id: own }]);
  expect((await other.get('/reports', { format: 'ndjson' })).body).not.toContain(id);
  expect((await org.get('/jobs')).body.jobs).toHaveLength(2);
});

it('projects do not share idempotency keys, and a repeat returns the job of its project', async () => {
  const { owner, other } = await twoProjects();
  const request = { type: 'EXECUTE', idempotency_key: 'shared' };
  const [first, second] = [await owner.post('/jobs', request), await other.post('/jobs', request)];
  expect(second.body.job_id).not.toBe(first.body.job_id);
  expect((await owner.post('/jobs', request)).body.job_id).toBe(first.body.job_id);
});

it('a project sees only its own keys', async () => {
  const { org, owner } = await twoProjects();
  expect((await owner.get('/clients/me')).body.keys).toHaveLength(1);
  expect((await org.get('/clients/me')).body.keys).toHaveLength(3);
});

it('webhooks and secrets belong to the whole org, so a key of a project is refused', async () => {
  const { org, owner } = await twoProjects();
  const webhook = { url: 'https://93.184.215.14/hook', events: ['job.succeeded'] };
  const { webhook_id: id } = (await org.post('/webhooks', webhook)).body;
  const answers = [
    await owner.post('/webhooks', webhook),
    await owner.get('/webhooks'),
    await owner.get(`/webhooks/${id}`),
    await owner.send('PATCH', `/webhooks/${id}`, { enabled: false }),
    await owner.send('DELETE', `/webhooks/${id}`),
    await owner.post(`/webhooks/${id}/secret/rotate`, {}),
    await owner.post('/webhooks/callbacks/secret', {}),
    await owner.post(`/webhooks/${id}/test`),
    await owner.get(`/webhooks/${id}/deliveries`),
    await owner.get(`/webhooks/${id}/deliveries/${randomUUID()}`),
    await owner.post(`/webhooks/${id}/deliveries/${randomUUID()}/redeliver`),
    await owner.post(`/webhooks/${id}/redeliver`, { since: '2026-01-01T00:00:00Z' }),
  ];
  for (const { status, body } of answers) expect([status, body.code]).toEqual([403, 'RFA_AUTH_FORBIDDEN']);
  expect(answers[0]?.body.detail).toContain('bound to a project');
  expect((await org.get(`/webhooks/${id}`)).body.enabled).not.toBe(false);
});
