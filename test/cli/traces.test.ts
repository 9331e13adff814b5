/** The traces of the real program, as a collector receives them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { ask, folderWith, Running, run, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Attribute = { key: string; value: Record<string, unknown> };
type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  status: { code?: number };
  attributes: Attribute[];
};

const spans: Span[] = [];
const bodies: string[] = [];
const received: { path: string; traceparent: unknown; body: string }[] = [];

/** The collector, and the endpoint of webhooks. */
const server = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  if (request.url === '/collector/v1/traces') {
    bodies.push(body);
    for (const { scopeSpans } of JSON.parse(body).resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans);
  } else received.push({ path: request.url ?? '', traceparent: request.headers.traceparent, body });
  response.end('{}');
});
const port = () => (server.address() as AddressInfo).port;

beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const SECRET = 'sk-planted-4242';

const HANDLERS = `
  export function register(millrace) {
    millrace.register({ type: 'greet', handler: (context) => context.traceparent });
    millrace.register({ type: 'break', maxAttempts: 1, handler: () => { throw new Error('password=${SECRET}'); } });
  }`;

const attribute = ({ attributes }: Span, name: string): unknown => {
  const value = attributes.find(({ key }) => key === name)?.value;
  return value === undefined ? undefined : Object.values(value)[0];
};
const ofJob = (jobId: string): Span[] => spans.filter((span) => attribute(span, 'job_id') === jobId);
const named = (all: readonly Span[], name: string): Span => {
  const found = all.find((span) => span.name === name);
  if (found === undefined) throw new Error(`no span ${name} among ${all.map((span) => span.name).join(', ')}`);
  return found;
};
const arrive = (jobId: string, name: string) => until(`the span ${name} arrives`, () => ofJob(jobId).some((span) => span.name === name));
/** A span is sent when it ends, and those that belong together may end in any order. */
async function arrived(what: string, isWanted: (span: Span) => boolean): Promise<Span> {
  await until(`${what} arrives`, () => spans.some(isWanted));
  return spans.find(isWanted) as Span;
}

type Up = { url: string; key: string };

/** The servers of this file, by their settings. */
const servers = new Map<string, { running: Running; up: Promise<Up> }>();
afterAll(() => Promise.all([...servers.values()].map(({ running }) => running.end())));

function startUp(settings = ''): Promise<Up> {
  const known = servers.get(settings);
  if (known !== undefined) return known.up;
  const cwd = folderWith({
    'handlers.js': HANDLERS,
    'millrace.toml': `[telemetry]\notlp_endpoint = "http://127.0.0.1:${port()}/collector"\n${settings}\n[egress]\ntargets = ["127.0.0.1:${port()}"]\n[webhooks]\nverify = false\n`,
  });
  const running = new Running(['up', '--port', '0', '--json', './handlers.js'], { ...here(), cwd });
  const up = greeted(running);
  servers.set(settings, { running, up });
  return up;
}

async function greeted(running: Running): Promise<Up> {
  const [line] = await running.said(/.*"event":"up".*\n/);
  const { url } = JSON.parse(line);
  const { key } = await ask<{ key: string }>(['keys', 'create', '--org', 'default', '--name', 'traces'], here());
  return { url, key };
}

async function call({ url, key }: Up, path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { ...(key === '' ? {} : { authorization: `Bearer ${key}` }), 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${path}: ${JSON.stringify(answer)}`);
  return { status: response.status, body: answer };
}

const PARENT = (digit: string) => `00-${digit.repeat(32)}-${'b'.repeat(16)}-01`;

describe('traces', () => {
  it('of the queue API: a submission, its handler and the notification of its end are one trace [AB-obs.17] [AB-obs.18] [AB-contract.13]', async () => {
    const up = await startUp();
    const callback = `http://127.0.0.1:${port()}/told`;
    const submission = { type: 'greet', payload: { token: SECRET }, callback_url: callback };
    const { status, body } = await call(up, '/queue/v1/jobs', submission, { traceparent: PARENT('a') });
    expect(status).toBe(202);
    for (const name of ['notify', 'run greet']) await arrive(body.job_id, name);
    const run = named(ofJob(body.job_id), 'run greet');
    const request = await arrived('the span of the request', ({ spanId }) => spanId === run.parentSpanId);
    expect(request).toMatchObject({ name: 'request POST /queue/v1/jobs', traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16) });
    expect(new Set(ofJob(body.job_id).map(({ traceId }) => traceId))).toEqual(new Set(['a'.repeat(32)]));
    expect(named(ofJob(body.job_id), 'notify')).toMatchObject({ kind: 3, parentSpanId: request.spanId });
    const told = received.find(({ path, body: text }) => path === '/told' && text.includes(body.job_id));
    expect(told?.traceparent).toBe(`00-${'a'.repeat(32)}-${request.spanId}-01`);
  });

  it('of the ingest API: a manifest and its downloads are one trace [AB-obs.17] [AB-obs.18]', async () => {
    // A server of its own: the folder of another test, where it stores files, is gone.
    const up = await startUp('trace_sample = 1.0');
    const resources = ['a', 'b'].map((id) => ({ id, url: `http://127.0.0.1:${port()}/${id}` }));
    const manifest = { manifest_version: 'v1', metadata: {}, resources };
    await call({ ...up, key: '' }, '/jobs', manifest, { traceparent: PARENT('e'), 'x-fetchbox-job-type': 'default' });
    const downloads = () => spans.filter(({ name, traceId }) => name === 'run fetchbox.fetch' && traceId === 'e'.repeat(32));
    await until('both downloads arrive', () => downloads().length === 2);
    const isOfManifest = ({ name, traceId }: Span) => name === 'request POST /jobs' && traceId === 'e'.repeat(32);
    const request = await arrived('the span of the request', isOfManifest);
    expect(downloads().map(({ parentSpanId }) => parentSpanId)).toEqual([request.spanId, request.spanId]);
  });

  it('of /v1: submit, enqueue, assign, run and report; a retry; a cancel; a key [FR-16.34] [FR-16.35] [FR-16.36] [FR-16.37] [FR-16.38]', async () => {
    const up = await startUp();
    const nobody = { ...up, key: '' };
    const created = (await call(nobody, '/v1/clients', {})).body;
    const first = (await call(nobody, `/v1/clients/${created.client_id}/keys`, {})).body;
    const client = { url: up.url, key: first.api_key };
    await call(client, '/v1/webhooks', { url: `http://127.0.0.1:${port()}/hook`, events: ['job.succeeded'] });
    const submitted = (await call(client, '/v1/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' }, { traceparent: PARENT('c') })).body;
    for (const name of ['submit', 'enqueue', 'assign', 'run', 'report', 'notify']) await arrive(submitted.job_id, name);
    const ids = new Set(ofJob(submitted.job_id).map(({ traceId }) => traceId));
    expect(ids).toEqual(new Set(['c'.repeat(32)]));

    const failing = (await call(client, '/v1/jobs', { type: 'EXECUTE', work_kind: 'RETRY_ON_FAIL' }, { traceparent: PARENT('d') })).body;
    await arrive(failing.job_id, 'report');
    expect((await call(client, `/v1/jobs/${failing.job_id}/retry`, {})).status).toBeLessThan(300);
    await until('both runs arrive', () => ofJob(failing.job_id).filter(({ name }) => name === 'run').length === 2);
    await arrive(failing.job_id, 'retry');
    expect(named(ofJob(failing.job_id), 'retry').traceId).toBe('d'.repeat(32));
    expect(new Set(ofJob(failing.job_id).map(({ traceId }) => traceId)).size).toBe(1);

    const long = (await call(client, '/v1/jobs', { type: 'EXECUTE', work_kind: 'RUNS_LONG' }, { traceparent: PARENT('e') })).body;
    expect((await call(client, `/v1/jobs/${long.job_id}/cancel`, {})).status).toBeLessThan(300);
    await arrive(long.job_id, 'cancel');
    expect(named(ofJob(long.job_id), 'cancel').traceId).toBe('e'.repeat(32));

    const rotated = (await call(client, `/v1/clients/${created.client_id}/keys`, { rotate: true })).body;
    await call({ ...client, key: rotated.api_key }, `/v1/clients/${created.client_id}/keys/revoke`, { key_id: rotated.key_id });
    const ofKey = () => spans.filter((span) => attribute(span, 'key_id') === rotated.key_id).map(({ name }) => name);
    await until('the spans of the key arrive', () => ['key.revoke', 'key.rotate'].every((name) => ofKey().includes(name)));
  });

  it.each([
    ['while it runs', { type: 'EXECUTE', work_kind: 'RUNS_LONG' }, 'RUNNING', ['submit', 'enqueue', 'assign', 'run', 'cancel', 'report']],
    [
      'before it is due',
      { type: 'DEFERRED', execution_at: new Date(Date.now() + 3_600_000).toISOString() },
      'CREATED',
      ['submit', 'enqueue', 'cancel', 'report'],
    ],
  ] as const)('of /v1: a job that is cancelled %s has one report [FR-16.34] [FR-16.37]', async (_, job, state, names) => {
    const up = await startUp();
    const nobody = { ...up, key: '' };
    const { client_id } = (await call(nobody, '/v1/clients', {})).body;
    const client = { url: up.url, key: (await call(nobody, `/v1/clients/${client_id}/keys`, {})).body.api_key };
    const { job_id } = (await call(client, '/v1/jobs', job, { traceparent: PARENT('9') })).body;
    const look = async () => (await fetch(`${up.url}/v1/jobs/${job_id}`, { headers: { authorization: `Bearer ${client.key}` } })).json();
    await until(`the job is ${state}`, async () => (await look()).state === state);
    await call(client, `/v1/jobs/${job_id}/cancel`, {});
    await arrive(job_id, 'report');
    for (const name of names) await arrive(job_id, name);
    expect(
      ofJob(job_id)
        .map(({ name }) => name)
        .sort(),
    ).toEqual([...names].sort());
    expect(attribute(named(ofJob(job_id), 'report'), 'outcome')).toBe('CANCELED');
  });

  it('reach the handlers of a process that only works [AB-obs.18]', async () => {
    const up = await startUp();
    const cwd = folderWith({
      'apart.js': `export const handlers = { apart: (context) => context.traceparent };`,
      'millrace.toml': `[telemetry]\notlp_endpoint = "http://127.0.0.1:${port()}/collector"\n`,
    });
    const work = start(['work', '--json', './apart.js'], { ...here(), cwd });
    await work.said(/"event":"serving"/);
    const { job_id } = (await call(up, '/queue/v1/jobs', { type: 'apart', payload: {} }, { traceparent: PARENT('5') })).body;
    await arrive(job_id, 'run apart');
    expect(named(ofJob(job_id), 'run apart').traceId).toBe('5'.repeat(32));
    work.kill('SIGTERM');
    expect(await work.ended).toMatchObject({ code: 0 });
  });

  it('follow the decision of the caller, and record a part of the others', async () => {
    const up = await startUp('trace_sample = 0');
    const quiet = (await call(up, '/queue/v1/jobs', { type: 'greet', payload: {} })).body;
    const unsampled = (await call(up, '/queue/v1/jobs', { type: 'greet', payload: {} }, { traceparent: PARENT('7').replace(/01$/, '00') }))
      .body;
    const sampled = (await call(up, '/queue/v1/jobs', { type: 'greet', payload: {} }, { traceparent: PARENT('8') })).body;
    await arrive(sampled.job_id, 'run greet');
    expect([ofJob(quiet.job_id), ofJob(unsampled.job_id)]).toEqual([[], []]);
    await until('the other job has completed', () => ledger.stateOf({ orgId: DEFAULT_ORG_ID, id: unsampled.job_id }), 'completed');
    // The trace goes on, although nobody records it here.
    const job = await ask<{ result: { output: string } }>(['jobs', 'get', unsampled.job_id], here());
    expect(job.result.output).toMatch(new RegExp(`^00-${'7'.repeat(32)}-[0-9a-f]{16}-00$`));
  });

  it('tell that a handler failed, without its message, and contain no secret [AB-obs.08]', async () => {
    const up = await startUp();
    const { job_id } = (await call(up, '/queue/v1/jobs', { type: 'break', payload: { api_key: SECRET } })).body;
    await arrive(job_id, 'run break');
    expect(named(ofJob(job_id), 'run break').status).toMatchObject({ code: 2 });
    expect(bodies.filter((body) => body.includes(SECRET) || body.includes(up.key))).toEqual([]);
  });

  it('are lost, and nothing else, while the collector does not respond', async () => {
    const cwd = folderWith({ 'handlers.js': HANDLERS, 'millrace.toml': '[telemetry]\notlp_endpoint = "http://127.0.0.1:1"\n' });
    const up = start(['up', '--port', '0', '--json', './handlers.js'], { ...here(), cwd });
    await up.said(/.*"event":"up".*\n/);
    const done = await run(['jobs', 'submit', 'greet', '{}', '--wait'], here());
    expect(done).toMatchObject({ code: 0 });
    up.kill('SIGTERM');
    expect(await up.ended).toMatchObject({ code: 0, stderr: '' });
  });
});
