import { beforeAll, expect, test } from 'vitest';
import { useIngest } from './ingest-fixture.ts';

const server = useIngest();
let orgId = '';
let key = '';

beforeAll(async () => {
  orgId = (await server.operate('POST', '/orgs', { body: { name: 'caller' } })).body.org_id;
  const scopes = ['jobs:write', 'jobs:read', 'jobs:cancel', 'deadletter:manage', 'failures:read'];
  key = (await server.operate('POST', `/orgs/${orgId}/keys`, { body: { scopes } })).body.api_key;
});

async function queue(path: string, body: object, { method = 'POST', headers = {} }: { method?: string; headers?: object } = {}) {
  const response = await fetch(`${server.url}/queue/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

type Detail = { field: string; message: string };
const fields = (details: readonly Detail[]) => details.map(({ field }) => field);

test.each([
  [{ project_id: 'x' }, ['project_id']],
  [{ project_id: '0197a5b2-6a86-7b0e-9a53-1a2f3a0b7c11' }, ['project_id']],
  [{ expires_in: '1ms' }, ['expires_in']],
  [{ expires_in: '100y' }, ['expires_in']],
  [{ expires_in: '11000d', project_id: '../' }, ['project_id', 'expires_in']],
  [{ scopes: ['jobs:wirte'], name: '' }, ['name', 'scopes']],
  [{ projectId: 'x' }, ['projectId']],
])('a new key with %j is refused with the names that were sent [GA-6.09]', async (body, expected) => {
  const { status, body: answer } = await server.operate('POST', `/orgs/${orgId}/keys`, { body });
  expect([status, fields(answer.error.details)]).toEqual([400, expected]);
  if (!('projectId' in body)) expect(JSON.stringify(answer)).not.toMatch(/projectId|"expires"/);
});

const NUL = 'a\u0000b';
const LONG = 'x'.repeat(501);

test.each([
  [{ action: 'replay', filter: { since: 'yesterday' } }, ['filter.since']],
  [{ action: 'replay', filter: { until: '2024' } }, ['filter.until']],
  [{ action: 'discard', filter: { project_id: 'x', status: 'broken' } }, ['filter.project_id', 'filter.status']],
  [{ action: 'replay', filter: { fingerprint: LONG } }, ['filter.fingerprint']],
  [{ action: 'replay', filter: { rate: '1' } }, ['filter.rate']],
  [{ action: 'replay', filter: { constructor: 'x' } }, ['filter.constructor']],
  [{ action: 'cancel', filter: { created_after: 'yesterday' } }, ['filter.created_after']],
  [{ action: 'cancel', filter: { priorities: ['URGENT'] } }, ['filter.priorities']],
  [{ action: 'cancel', filter: { types: ['a'] }, halt: { failure_rate: 2 } }, ['halt.failure_rate']],
])('an operation with %j is refused with the names that were sent [GA-6.09]', async (body, expected) => {
  const { status, body: answer } = await queue('/operations', body);
  expect([status, fields(answer.details)]).toEqual([400, expected]);
  expect(answer.message).toContain(answer.details[0].field);
});

test.each([
  [{ filter: { created_before: 'later' } }, ['filter.created_before']],
  [{ filter: { types: ['a'], cursor: 'abc' } }, ['filter.limit']],
  [{ filter: { types: ['a'], cursor: 'abc', limit: 1 } }, ['filter.cursor']],
  [{ filter: {} }, ['filter']],
])('a cancellation with %j is refused with the names that were sent [GA-6.09]', async (body, expected) => {
  const { status, body: answer } = await queue('/jobs/cancel', body);
  expect([status, fields(answer.details)]).toEqual([400, expected]);
});

test.each(['scheduled_for', 'scheduled_at'])(
  'a wrong %s is reported under that name, alone, in a batch and in a piece [GA-6.09]',
  async (name) => {
    const job = { type: 'a', payload: {}, [name]: 'tomorrow' };
    const one = await queue('/jobs', job);
    expect([one.status, fields(one.body.details)]).toEqual([400, [name]]);
    expect(one.body.message).toContain(`${name} `);
    const two = await queue('/jobs', { ...job, [name]: '2999-01-01T00:00:00Z', delay: 'PT1S' });
    expect(two.body.details.map(({ message }: Detail) => message).join()).toContain(`and ${name} cannot be combined`);
    const good = { type: 'a', payload: {} };
    const { body: batch } = await queue('/jobs/batch', { atomic: false, jobs: [good, job] });
    expect([batch.accepted, fields(batch.results[1].error.details)]).toEqual([1, [name]]);
    const { batch_id: id } = (await queue('/batches', {})).body;
    const piece = await queue(`/batches/${id}/parts/1`, { jobs: [good, job] }, { method: 'PUT' });
    expect([piece.status, fields(piece.body.details)]).toEqual([400, [`jobs[1].${name}`]]);
  },
);

test.each([
  [{ 'content-type': 'nonsense' }, 'Content-Type', 'media type such as text/csv'],
  [{ 'content-type': `text/${'x'.repeat(300)}` }, 'Content-Type', 'Content-Type must have 1 to 255'],
  [{ 'content-type': 'text/csv', 'x-artifact-name': ' ' }, 'X-Artifact-Name', 'X-Artifact-Name must not be empty'],
  [{ 'content-type': 'text/csv', 'x-artifact-name': "utf-8''..%2F%00" }, 'X-Artifact-Name', 'X-Artifact-Name must not contain control'],
])('an upload with the headers %j is refused with the name of the header [GA-6.09]', async (headers, field, message) => {
  const { status, body } = await queue('/artifacts', {}, { headers });
  expect([status, fields(body.details)]).toEqual([400, [field]]);
  expect(body.details[0].message).toContain(message);
  expect(JSON.stringify(body)).not.toContain('must be JSON');
});

test('a filter with NUL is refused under its name', async () => {
  const answer = await queue('/operations', { action: 'cancel', filter: { types: [NUL] } });
  expect(answer.status).toBe(400);
  expect(fields(answer.body.details)[0]).toMatch(/^filter\.types/);
});
