import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { S3Store } from '../../src/objects/s3-store.ts';
import { startS3 } from '../objects/start-s3.ts';
import { until } from '../until.ts';
import { IngestServer, manifest } from './ingest-fixture.ts';

let s3: Awaited<ReturnType<typeof startS3>>;
let server: IngestServer;
let store: S3Store;
const BUCKET = 'conformance';

beforeAll(async () => {
  s3 = await startS3();
  const { endpoint, region, accessKeyId, secretAccessKey } = s3.options;
  server = new IngestServer({
    toml: `
[ingest]
bucket = "${BUCKET}"
max_manifest = "20MB"
[objects]
kind = "s3"
endpoint = "${endpoint}"
region = "${region}"
access_key = "${accessKeyId}"
force_path_style = true
`,
    environment: { MILLRACE_OBJECTS_SECRET_KEY: secretAccessKey },
  });
  store = new S3Store(s3.options);
  await server.open();
});
afterAll(async () => {
  await server.close();
  await store.close();
  await s3.stop();
});

async function objectAt(key: string): Promise<Buffer | null> {
  const found = await store.get({ bucket: BUCKET, key });
  return found === null ? null : buffer(found.body);
}

test('a manifest and its downloads lie in the bucket of an S3 service, also under hostile ids [FB-1.30] [FB-1.40]', async () => {
  const body = manifest({
    resources: [
      { id: 'one', url: server.origin.file('first'), tags: { owner: 'me' } },
      { id: '../..', url: server.origin.file('second') },
      { id: 'gone', url: server.origin.status(404) },
      { id: 'cut', url: server.origin.file((_, response) => void response.writeHead(404).end()) },
    ],
  });
  const jobId = await server.accepted({ body });
  const job = await server.reached(jobId, 'failed');
  expect(job).toMatchObject({
    resource_completed: 2,
    resource_failed: 2,
    manifest_key: `s3://${BUCKET}/manifests/default/${jobId}/metadata.json`,
  });
  expect((await objectAt(`manifests/default/${jobId}/metadata.json`))?.toString()).toBe('{"crawl":1}');
  expect((await objectAt(`manifests/default/${jobId}/manifest.json`))?.toString()).toBe(JSON.stringify(body));
  const { items } = (await server.get(`/jobs/${jobId}/resources`)).body;
  expect((await objectAt(items[0].object_key))?.toString()).toBe('first');
  expect((await objectAt(items[1].object_key))?.toString()).toBe('second');
  expect((await store.head({ bucket: BUCKET, key: items[0].object_key }))?.metadata.get('owner')).toBe('me');
  const listed = await store.list({ bucket: BUCKET, prefix: `default/${jobId}/`, limit: 10 });
  expect(listed.items.map(({ key }) => key).sort()).toEqual([items[0].object_key, items[1].object_key].sort());
});

test('a bucket may encrypt its objects: nothing takes an ETag for a checksum [FB-7.03]', async () => {
  const jobId = await server.accepted({ resources: [{ id: 'a', url: server.origin.file('content') }] });
  await server.reached(jobId, 'completed');
  const [{ object_key: key, sha256 }] = (await server.get(`/jobs/${jobId}/resources`)).body.items;
  const etag = (await store.head({ bucket: BUCKET, key }))?.etag;
  expect(etag).toMatch(/^"?[0-9a-f]{32}/);
  expect(etag).not.toContain(createHash('md5').update('content').digest('hex'));
  expect(sha256).toBe(createHash('sha256').update('content').digest('hex'));
});

test('a manifest above 5 MB is stored in several parts if the configuration allows it [FB-7.04]', async () => {
  const pad = 'x'.repeat(12 * 1_048_576);
  const body = JSON.stringify(manifest({ metadata: { pad }, resources: [{ id: 'a', url: server.origin.file() }] }));
  const jobId = await server.accepted({ body });
  await server.reached(jobId, 'completed');
  const key = `manifests/default/${jobId}/manifest.json`;
  expect((await objectAt(key))?.toString() === body).toBe(true);
  // The service marks an object that came in parts.
  expect((await store.head({ bucket: BUCKET, key }))?.etag).toMatch(/-\d+"?$/);
});

test('the health says when the S3 service is away, and a submission is refused [FB-2.22] [FB-1.50]', async () => {
  // A component that a busy machine delays by two seconds is shown as unhealthy.
  await until('the S3 service is healthy', async () => {
    const { status, body } = await server.get('/health', null);
    return [status, body.components.storage.status];
  }, [200, 'healthy']);
  const away = new IngestServer({
    concurrency: 0,
    toml: `[ingest]\nbucket = "missing-bucket"\n[objects]\nkind = "s3"\nendpoint = "${s3.options.endpoint}"\naccess_key = "${s3.options.accessKeyId}"\nforce_path_style = true`,
    environment: { MILLRACE_OBJECTS_SECRET_KEY: s3.options.secretAccessKey },
  });
  await away.open();
  try {
    const health = await away.get('/health', null);
    expect([health.status, health.body.components.storage.status]).toEqual([503, 'unhealthy']);
    const { status, body } = await away.submit({ body: manifest() });
    expect([status, body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect((await away.get('/jobs')).body.items).toEqual([]);
  } finally {
    await away.close();
  }
});
