import { expect, it } from 'vitest';
import { until } from '../until.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answer = { status: number; body: any };

it('lets one person with an HTTP client do everything there is to do [FR-04.01] [FR-02.01] [FR-01.02]', async () => {
  let key = '';
  const call = async (method: string, path: string, sent?: object): Promise<Answer> => {
    const headers: Record<string, string> = {
      ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
      ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const body = sent === undefined ? undefined : JSON.stringify(sent);
    const response = await fetch(`${server.url}/v1${path}`, { method, headers, body });
    return { status: response.status, body: await response.json() };
  };
  const ended = (id: string) => until(`job ${id} has ended`, async () => (await call('GET', `/jobs/${id}`)).body.outcome !== null);

  const client = await call('POST', '/clients');
  expect(client.status).toBe(201);
  const keys = `/clients/${client.body.client_id}/keys`;
  const first = await call('POST', keys, {});
  expect(first.status).toBe(201);
  key = first.body.api_key;

  const failing = await call('POST', '/jobs', { type: 'EXECUTE', work_kind: 'RETRY_ON_FAIL' });
  expect(failing.status).toBe(202);
  await ended(failing.body.job_id);
  expect((await call('GET', `/jobs/${failing.body.job_id}`)).body.outcome).toBe('FAILED');
  expect((await call('POST', `/jobs/${failing.body.job_id}/retry`)).body).toMatchObject({
    state: 'QUEUED',
    attempt: 2,
  });
  await ended(failing.body.job_id);
  expect((await call('GET', `/jobs/${failing.body.job_id}/report`)).body.outcome).toBe('SUCCESS');

  const later = await call('POST', '/jobs', { type: 'DEFERRED', execution_at: '2040-01-15T10:30:00Z' });
  expect((await call('POST', `/jobs/${later.body.job_id}/cancel`)).body.state).toBe('CANCELED');
  expect((await call('GET', '/jobs')).body.jobs).toHaveLength(2);
  expect((await call('GET', '/reports')).body.totals.by_outcome).toEqual({ SUCCESS: 1, CANCELED: 1 });

  const renewed = await call('POST', `${keys}/renew`, {});
  expect(renewed.status).toBe(200);
  key = renewed.body.api_key;
  expect((await call('GET', '/clients/me')).body.client_id).toBe(client.body.client_id);
  expect((await call('POST', `${keys}/revoke`, { key_id: renewed.body.key_id })).body).toEqual({ revoked: true });
  expect((await call('GET', '/jobs')).status).toBe(403);
});
