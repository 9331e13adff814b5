import { describe, expect, it } from 'vitest';
import { type TestClient, useExecution } from './execution-fixture.ts';

const server = useExecution();
const PAST = '2001-01-01T00:00:00Z';
const FUTURE = '2040-01-15T10:30:00Z';

/** Everything of the client that a submission may leave behind. */
async function traces(client: TestClient): Promise<number> {
  const { rows } = await server.ledger.db.api.query(
    `SELECT (SELECT count(*) FROM millrace.jobs WHERE org_id = $1) + (SELECT count(*) FROM millrace.ready WHERE org_id = $1)
       + (SELECT count(*) FROM millrace.timers WHERE org_id = $1) + (SELECT count(*) FROM millrace.records WHERE org_id = $1)
       + (SELECT count(*) FROM millrace.idempotency_keys WHERE org_id = $1) AS count`,
    [client.clientId],
  );
  return Number(rows[0].count);
}

async function refused(body: unknown, headers: Record<string, string> = {}) {
  const client = await server.client();
  const answer = await client.post('/jobs', body, { 'idempotency-key': 'a key', ...headers });
  expect(answer.status).toBe(400);
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(await traces(client)).toBe(0);
  return answer.body;
}

const malformed = 'RFA_REQUEST_MALFORMED';
const invalid = 'RFA_JOB_VALIDATION_FAILED';

describe('a submission that is refused', () => {
  it.each([
    ['no body', undefined, 'body', 'INVALID_TYPE'],
    ['a list', [], 'body', 'INVALID_TYPE'],
    ['no type', {}, 'type', 'REQUIRED'],
    ['a type of null', { type: null }, 'type', 'REQUIRED'],
    ['a deferred job without a time', { type: 'DEFERRED' }, 'execution_at', 'REQUIRED'],
    ['a type that is a number', { type: 1 }, 'type', 'INVALID_TYPE'],
    ['a time that is a number', { type: 'DEFERRED', execution_at: 1 }, 'execution_at', 'INVALID_TYPE'],
  ])('%s: malformed, and nothing is kept [FR-14.11] [FR-14.12] [FR-08.28]', async (_, body, field, code) => {
    const problem = await refused(body);
    expect(problem).toMatchObject({ status: 400, code: malformed });
    expect(problem.errors).toContainEqual(expect.objectContaining({ field, code }));
  });

  it.each(['', 'execute', 'RUN', 'forgerun.simulated', '__proto__'])(
    'the type %j is not in the catalogue, and no job comes of it [FR-14.13] [FR-14.14]',
    async (type) => {
      const problem = await refused({ type });
      expect(problem).toMatchObject({ status: 400, code: invalid });
      expect(problem.errors).toContainEqual(expect.objectContaining({ field: 'type', code: 'INVALID_VALUE' }));
    },
  );

  it.each([
    ['DEFERRED', PAST],
    ['EMIT_EVENT', PAST],
    ['DEFERRED', 'just now'],
  ])('a time in the past, of %s at %s, is never queued [FR-06.58] [FR-14.15] [FR-14.16]', async (type, at) => {
    const time = at === PAST ? PAST : new Date(Date.now() - 1_500).toISOString();
    const problem = await refused({ type, execution_at: time });
    expect(problem).toMatchObject({ status: 400, code: invalid });
    expect(problem.errors).toEqual([expect.objectContaining({ field: 'execution_at', code: 'IN_THE_PAST' })]);
  });

  it.each([
    ' 2040-01-15T10:30:00Z',
    '2040-01-15T10:30:00Z\t',
    'tomorrow',
    '2040-01-15',
    '2040-13-01T00:00:00Z',
    '2040-02-30T00:00:00Z',
    '2040-01-15T10:30:00',
    '',
    '0',
  ])('the time %j is no timestamp [FR-14.17] [FR-10.01]', async (text) => {
    const problem = await refused({ type: 'DEFERRED', execution_at: text });
    expect(problem.code).toBe(invalid);
    expect(problem.errors[0]).toMatchObject({ field: 'execution_at', code: 'INVALID_TIMESTAMP' });
  });

  it.each(['2040-01-15T10:30:00+01:00', '2040-01-15T10:30:00-00:30'])('the time %s is not in UTC [FR-08.23] [FR-10.01]', async (text) => {
    const problem = await refused({ type: 'DEFERRED', execution_at: text });
    expect(problem.errors[0]).toMatchObject({ field: 'execution_at', code: 'NOT_UTC' });
  });

  it('an instant job with a time [FR-07.02]', async () => {
    const problem = await refused({ type: 'EXECUTE', execution_at: FUTURE });
    expect(problem.errors[0]).toMatchObject({ field: 'execution_at', code: 'NOT_ALLOWED' });
  });

  it.each(['ftp://example.com/x', 'example.com/hook', 'http://', '//example.com', 'javascript:alert(1)', 'https:', ''])(
    'the callback %j has no fit scheme or host [FR-14.18] [FR-08.24]',
    async (callback) => {
      const problem = await refused({ type: 'EXECUTE', callback });
      expect(problem.code).toBe(invalid);
      expect(problem.errors[0].field).toBe('callback');
    },
  );

  it('everything that is wrong is named at once', async () => {
    const problem = await refused({
      type: 'EXECUTE',
      work_kind: 'SUCCES_FAST',
      callback: 'x',
      wrokKind: 1,
      job_id: '1',
    });
    expect(problem.errors.map(({ field }: { field: string }) => field).sort()).toEqual(
      ['callback', 'job_id', 'work_kind', 'wrokKind'].sort(),
    );
    expect(JSON.stringify(problem.errors)).toContain('SUCCESS_FAST');
  });

  it('a kind that is always refused, and a kind for another type', async () => {
    const rejected = await refused({ type: 'EXECUTE', work_kind: 'PAYLOAD_INVALID' });
    expect(rejected).toMatchObject({ code: invalid, errors: [{ field: 'work_kind', code: 'PAYLOAD_INVALID' }] });
    const scheduled = await refused({ type: 'EXECUTE', work_kind: 'SCHEDULED_ON_TIME' });
    expect(scheduled).toMatchObject({ code: invalid, errors: [{ field: 'work_kind', code: 'NOT_FOR_TYPE' }] });
  });

  it('a type that this server is not set to take [FR-18.08]', async () => {
    const url = await server.listen({ settings: { allowedTypes: ['EXECUTE'] } });
    const client = (await server.client()).at(url);
    const answer = await client.post('/jobs', { type: 'DEFERRED', execution_at: FUTURE });
    expect(answer).toMatchObject({
      status: 400,
      body: { code: invalid, errors: [{ field: 'type', code: 'NOT_ALLOWED' }] },
    });
    expect((await client.post('/jobs', { type: 'EXECUTE' })).status).toBe(202);
    const elsewhere = await server.client();
    expect((await elsewhere.post('/jobs', { type: 'DEFERRED', execution_at: FUTURE })).status).toBe(202);
  });

  it('a payload larger than this server is set to take', async () => {
    const url = await server.listen({ settings: { payloadBytes: 4_096 } });
    const client = (await server.client()).at(url);
    const answer = await client.post('/jobs', { type: 'EXECUTE', work_kind: 'PAYLOAD_LARGE' });
    expect(answer).toMatchObject({ status: 400, body: { code: invalid } });
    expect(answer.body.errors).toEqual([expect.objectContaining({ field: 'work_kind', code: 'PAYLOAD_TOO_LARGE' })]);
    expect(await traces(client)).toBe(0);
    expect((await client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' })).status).toBe(202);
  });

  it('the statuses that submit, read, report, cancel and retry may answer are in the document [FR-08.28] [FR-08.32] [FR-08.36] [FR-08.48] [FR-08.57]', () => {
    const { paths } = server.contract.document;
    const declared = (path: string, method: string) => Object.keys(paths[path]?.[method]?.responses ?? {});
    const change = ['400', '401', '403', '404', '409', '500', '503'];
    const read = ['401', '403', '404', '500', '503'];
    expect(declared('/v1/jobs', 'post')).toEqual(expect.arrayContaining(['202', '400', '401', '403', '409', '429', '500', '503']));
    expect(declared('/v1/jobs/{job_id}/cancel', 'post')).toEqual(expect.arrayContaining(['200', ...change]));
    expect(declared('/v1/jobs/{job_id}/retry', 'post')).toEqual(expect.arrayContaining(['200', ...change]));
    expect(declared('/v1/jobs/{job_id}', 'get')).toEqual(expect.arrayContaining(['200', ...read]));
    expect(declared('/v1/jobs/{job_id}/report', 'get')).toEqual(expect.arrayContaining(['200', ...read]));
  });
});
