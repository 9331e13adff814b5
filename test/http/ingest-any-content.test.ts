import { expect, test } from 'vitest';
import { type IngestManifest, registerIngestHandler } from '../../src/core/ingest/handler.ts';
import { useIngest } from './ingest-fixture.ts';

const seen: IngestManifest[] = [];
registerIngestHandler('test::Seeing', {
  prepareManifest(manifest) {
    seen.push(manifest);
    return manifest;
  },
  buildTasks: () => [],
});

const server = useIngest({ toml: '[job_types.seeing]\nhandler = "test::Seeing"\n' });
const RESOURCES = '[{"id":"a","url":"https://example.com/a"}]';

const bodyOf = ({ metadata = '{}', attributes = '{}' }: { metadata?: string; attributes?: string }): string =>
  `{"manifest_version":"v1","metadata":${metadata},"attributes":${attributes},"resources":${RESOURCES}}`;

const send = (parts: Parameters<typeof bodyOf>[0], tenant = 'acme') =>
  server.submit({ jobType: 'seeing', body: bodyOf(parts), headers: { 'x-fetchbox-tenant': tenant } });

const ANY_TEXT =
  '{"a\\u0000b":"NUL \\u0000","half":"\\ud800","constructor":"x","toString":1,"..":"../","":[null,1.0,12345678901234567890]}';

test.each([
  ['small', ANY_TEXT],
  ['large', ANY_TEXT.replace('{', `{"pad":"${'x'.repeat(300_000)}",`)],
])(
  'metadata and attributes may have any text: %s ones are stored byte for byte and reach the handler [FB-1.16] [FB-1.17] [FB-1.31] [FB-1.32] [C85]',
  async (_, any) => {
    const { status, body } = await send({ metadata: any, attributes: any });
    expect([status, body.error]).toEqual([202, undefined]);
    const stored = server.object('fetchbox', `manifests/seeing/${body.job_id}/metadata.json`).toString();
    expect(stored === any).toBe(true);
    const { metadata, attributes } = seen.find(({ jobId }) => jobId === body.job_id) as IngestManifest;
    expect([metadata, attributes]).toEqual([JSON.parse(any), JSON.parse(any)]);
  },
);

test.each(['"a\\u0000b"', '"\\ud800"', '{"toString":1,"valueOf":1}', '[[]]', 'null', `"${'x'.repeat(5_000)}"`])(
  'an attribute tenant that is %s is a line of the log, and the org is that of the header [C07]',
  async (tenant) => {
    const { status, body } = await send({ attributes: `{"tenant":${tenant}}` }, 'from-header');
    expect(status).toBe(202);
    expect((await server.get(`/jobs/${body.job_id}`)).body.tenant).toBe('from-header');
    const { body: lines } = await server.get(`/jobs/${body.job_id}/logs`);
    const warning = lines.find(({ event }: { event: string }) => event === 'tenant.mismatch');
    expect(warning.details.attribute.length).toBeLessThanOrEqual(200);
  },
);

const nested = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
const numbers = (count: number): string => `{"a":[${'1,'.repeat(count - 1)}1]}`;

test('the depth, the numbers and the number of values have limits, which the description of the API names [FB-1.16]', async () => {
  const status = async (metadata: string) => (await send({ metadata })).status;
  expect([await status(nested(63)), await status(nested(64))]).toEqual([202, 400]);
  expect([await status('{"a":1e308}'), await status('{"a":1e999}'), await status('{"a":-1e999}')]).toEqual([202, 400, 400]);
  expect([await status(numbers(999_900)), await status(numbers(1_000_001))]).toEqual([202, 400]);
  const { components } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    components: { schemas: Record<string, { properties: Record<string, { description: string }> }> };
  };
  const { metadata, attributes } = components.schemas.Manifest?.properties ?? {};
  for (const description of [metadata?.description, attributes?.description])
    for (const word of ['63', '__proto__', '1e999', '1,000,000']) expect(description).toContain(word);
});

test.each([
  ['{"__proto__":{"a":1}}', 'metadata.__proto__'],
  ['{"deep":[{"__proto__":null}]}', 'metadata.deep[0].__proto__'],
  ['{"\\u005f_proto__":1}', 'metadata.__proto__'],
  ['{"constructor":{"prototype":{"a":1}}}', 'metadata.constructor'],
  ['{"a":1e999}', 'metadata.a'],
])('metadata %s is refused, and the error names the member', async (metadata, field) => {
  const { status, body } = await send({ metadata });
  expect([status, body.error.code, body.error.details[0].field]).toEqual([400, 'INVALID_PAYLOAD', field]);
  expect(({} as { a?: unknown }).a).toBeUndefined();
});

test('a hundred thousand members with hostile names are accepted, and the orgs of two tenants keep apart', async () => {
  const names = Array.from({ length: 100_000 }, (_, index) => `"../${index}\\u0000":${index}`).join();
  const [one, two] = await Promise.all(['one', 'two'].map((tenant) => send({ metadata: `{${names}}`, attributes: `{${names}}` }, tenant)));
  expect([one?.status, two?.status]).toEqual([202, 202]);
  const orgs = await Promise.all([one, two].map(async (answer) => (await server.get(`/jobs/${answer?.body.job_id}`)).body.org_id));
  const key = (await server.operate('POST', `/orgs/${orgs[0]}/keys`, { body: { scopes: ['operator'] } })).body.api_key;
  const statuses = [];
  for (const path of ['', '/resources', '/logs']) statuses.push((await server.get(`/jobs/${two?.body.job_id}${path}`, key)).status);
  expect(statuses).toEqual([404, 404, 404]);
  expect((await server.get(`/jobs/${one?.body.job_id}/resources`, key)).status).toBe(200);
});
