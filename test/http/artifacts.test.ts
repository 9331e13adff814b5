import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { sampleStoredBytes } from '../../src/ledger/queues/stored-bytes.ts';
import { StoredLimit } from '../../src/services/admission/stored-limit.ts';
import { until } from '../until.ts';
import { DAY_MS, sha256Of, useArtifacts } from './artifact-fixture.ts';

const server = useArtifacts();
const PROJECT = '6f1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c01';

describe('an upload', () => {
  test('is stored with its checksum, and read back byte for byte [AB-cat.18] [N38]', async () => {
    const { caller, upload, content } = await server.caller();
    const bytes = 'name,days\nAda,3\n';
    const { status, body } = await upload(bytes, {
      'content-type': 'text/csv',
      'x-artifact-name': 'days.csv',
      'x-checksum-sha256': sha256Of(bytes),
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'days.csv',
      size: bytes.length,
      sha256: sha256Of(bytes),
      content_type: 'text/csv',
      owner: { org_id: caller.orgId, project_id: null, job_id: null },
    });
    expect(new Date(body.expires_at).getTime() - new Date(body.created_at).getTime()).toBe(30 * DAY_MS);
    expect((await caller.get(`/artifacts/${body.artifact_id}`)).body).toEqual(body);
    const response = await content(body.artifact_id);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(bytes);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      etag: `"${sha256Of(bytes)}"`,
      'content-type': 'text/csv',
      'content-length': String(bytes.length),
      'content-disposition': `attachment; filename="days.csv"; filename*=UTF-8''days.csv`,
      'x-content-type-options': 'nosniff',
      'accept-ranges': 'bytes',
    });
  });

  test('with another checksum is refused, and nothing is left', async () => {
    const { caller, upload } = await server.caller();
    const { status, body } = await upload('abc', { 'x-checksum-sha256': sha256Of('abd') });
    expect(status).toBe(400);
    expect(body.details[0].code).toBe('CHECKSUM_MISMATCH');
    expect(await server.rows(caller.orgId)).toEqual([]);
    expect(server.objects(caller.orgId)).toEqual([]);
  });

  test('for an import needs the checksum [AB-cat.18]', async () => {
    const { upload } = await server.caller();
    const refused = await upload('abc', { 'x-artifact-purpose': 'import' });
    expect(refused.status).toBe(400);
    expect(refused.body.message).toContain('X-Checksum-Sha256 is required');
    const accepted = await upload('abc', { 'x-artifact-purpose': 'import', 'x-checksum-sha256': sha256Of('abc').toUpperCase() });
    expect(accepted).toMatchObject({ status: 201, body: { purpose: 'import' } });
    expect((await upload('abc', { 'x-artifact-purpose': 'export' })).status).toBe(400);
    expect((await upload('abc', { 'x-checksum-sha256': 'abc' })).status).toBe(400);
  });

  test.each([undefined, 'text/plain'])('may have no byte (%s)', async (type) => {
    const { upload, content } = await server.caller();
    const { status, body } = await upload(type === undefined ? null : '', type === undefined ? {} : { 'content-type': type });
    expect(status).toBe(201);
    expect(body).toMatchObject({ size: 0, sha256: sha256Of('') });
    expect(await (await content(body.artifact_id)).text()).toBe('');
  });

  test('may be JSON that is not valid: the body is not parsed', async () => {
    const { upload, content } = await server.caller();
    const { status, body } = await upload('{"a":', { 'content-type': 'application/json' });
    expect(status).toBe(201);
    expect(await (await content(body.artifact_id)).text()).toBe('{"a":');
  });

  test('may be larger than any other body, and not larger than artifacts.max_size', async () => {
    const { caller, upload } = await server.caller();
    const { maxBytes } = server.storage;
    expect((await upload(new Uint8Array(maxBytes))).status).toBe(201);
    const announced = await upload(new Uint8Array(maxBytes + 1)).catch((error: Error) => error);
    if (!(announced instanceof Error)) expect(announced).toMatchObject({ status: 400, body: { details: [{ code: 'PAYLOAD_TOO_LARGE' }] } });
    const chunks = Array.from({ length: 9 }, () => new Uint8Array(maxBytes / 8));
    const streamed = await upload(Readable.toWeb(Readable.from(chunks)) as unknown as BodyInit).catch((error: Error) => error);
    if (!(streamed instanceof Error)) expect(streamed.status).toBe(400);
    await until(
      'only the first file is left',
      async () => [(await server.rows(caller.orgId)).length, server.objects(caller.orgId).length],
      [1, 1],
    );
  });

  test('is refused compressed, because its checksum would be that of other bytes', async () => {
    const { upload } = await server.caller();
    expect(await upload('abc', { 'content-encoding': 'gzip' })).toMatchObject({
      status: 400,
      body: { details: [{ field: 'Content-Encoding' }] },
    });
  });

  test('two with the same name at once are two artifacts', async () => {
    const { upload, content } = await server.caller();
    const stored = await Promise.all(['one', 'two'].map((text) => upload(text, { 'x-artifact-name': 'same.txt' })));
    expect(await Promise.all(stored.map(async ({ body }) => (await content(body.artifact_id)).text()))).toEqual(['one', 'two']);
  });

  test('writes to the audit trail who made it and why', async () => {
    const { caller, upload } = await server.caller();
    const { body } = await upload('abc', { 'x-reason': 'asked for by support' });
    const details = {
      artifact_id: body.artifact_id,
      name: 'artifact',
      size: 3,
      sha256: sha256Of('abc'),
      purpose: null,
      reason: 'asked for by support',
    };
    expect(await server.actions(caller.orgId)).toEqual([{ event: 'artifact.created', actor: expect.stringMatching(/^api_key:/), details }]);
  });
});

describe('the owner of an artifact', () => {
  test('is its org: for others it does not exist [AB-cat.20]', async () => {
    const [one, two] = [await server.caller(), await server.caller()];
    const { artifact_id: id } = (await one.upload('secret')).body;
    expect((await two.caller.get(`/artifacts/${id}`)).status).toBe(404);
    expect((await two.content(id)).status).toBe(404);
    expect((await two.caller.post(`/artifacts/${id}/link`, {})).status).toBe(404);
    expect((await fetch(`${server.queue.url}/queue/v1/artifacts/${id}/content`)).status).toBe(401);
  });

  test('is its project, if its key is bound to one [AB-cat.20]', async () => {
    const { caller } = await server.caller();
    const inside = server.withKey(caller, await server.queue.keyOf(caller.orgId, ['jobs:read', 'jobs:write'], PROJECT));
    const outside = server.withKey(caller, await server.queue.keyOf(caller.orgId, ['jobs:read'], '6f1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c02'));
    const { body } = await inside.upload('mine');
    expect(body.owner.project_id).toBe(PROJECT);
    expect((await inside.content(body.artifact_id)).status).toBe(200);
    expect((await outside.content(body.artifact_id)).status).toBe(404);
  });

  test('needs jobs:write to store and jobs:read to read', async () => {
    const { caller, upload } = await server.caller();
    const { artifact_id: id } = (await upload('abc')).body;
    const reader = server.withKey(caller, await server.queue.keyOf(caller.orgId, ['jobs:read']));
    const writer = server.withKey(caller, await server.queue.keyOf(caller.orgId, ['jobs:write']));
    expect((await reader.upload('abc')).status).toBe(403);
    expect((await writer.content(id)).status).toBe(403);
    expect((await reader.content(id)).status).toBe(200);
  });

  test.each(['__proto__', '../../etc/passwd', '%00', 'x'.repeat(1_000)])('an id may be anything: %#', async (id) => {
    const { caller } = await server.caller();
    expect((await caller.get(`/artifacts/${encodeURIComponent(id)}`)).status).toBe(404);
  });
});

test('artifacts count against what the org may store', async () => {
  const { caller, upload } = await server.caller();
  const stored = new StoredLimit(server.queue.ledger.db, { storedBytes: 20 * 1024 * 1024, orgShare: 0.15 });
  server.queue.engine.artifacts = { ...server.storage, admit: stored.take.bind(stored) };
  try {
    expect((await upload(new Uint8Array(2 * 1024 * 1024))).status).toBe(201);
    const refused = await upload(Readable.toWeb(Readable.from([new Uint8Array(2 * 1024 * 1024)])) as unknown as BodyInit);
    expect(refused).toMatchObject({ status: 429, body: { code: 'QUOTA_EXCEEDED', quota: { limit: 'org_stored_bytes' } } });
    expect(await server.rows(caller.orgId)).toHaveLength(1);
    const sampled = await sampleStoredBytes(server.queue.ledger.db.maintenance);
    expect(sampled.holders.get(caller.orgId)).toBe(2 * 1024 * 1024);
  } finally {
    server.queue.engine.artifacts = server.storage;
  }
});
