/** Two orgs with something of every kind, and every operation of the OpenAPI document as a request for what the first one has. */
import { randomUUID } from 'node:crypto';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { raiseAlerts } from '../../src/ledger/alerts/raise-alert.ts';
import { until } from '../until.ts';
import type { OpenApi, Operation } from './contract.ts';
import { type IngestServer, manifest } from './ingest-fixture.ts';

export const OPERATOR_TOKEN = 'operator-token-of-the-tests';

/** Stands in everything that the first org has and nobody else may see. */
export const MARK = `secret-of-the-first-org-${randomUUID().slice(0, 8)}`;

type Caller = (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Answered>;
// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answered = { status: number; text: string; body: any };

/** Sends a request again while a busy machine answers that the database is away. */
export const callerWith =
  (server: IngestServer, key: string | null): Caller =>
  async (...request) => {
    const sent = sender(server, key);
    let answer = await sent(...request);
    await until('the database responds', async () => {
      if (answer.status === 503) answer = await sent(...request);
      return answer.status !== 503;
    });
    return answer;
  };

const sender =
  (server: IngestServer, key: string | null): Caller =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { status } = response;
    if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
      await response.body?.cancel();
      return { status, text: '', body: null };
    }
    const text = await response.text();
    const isJson = /json$/.test((response.headers.get('content-type') ?? '').split(';')[0] as string) && !text.includes('}\n{');
    return { status, text, body: isJson && text !== '' ? JSON.parse(text) : null };
  };

async function made(answering: Promise<Answered>): Promise<Answered['body']> {
  const { status, text, body } = await answering;
  if (status >= 300) throw new Error(`${status} ${text}`);
  return body;
}

export type Org = { readonly id: string; readonly name: string; readonly key: string };

export async function makeOrg(server: IngestServer, name: string): Promise<Org> {
  const operate = callerWith(server, OPERATOR_TOKEN);
  const created = await operate('POST', '/operators/orgs', { name });
  // A first request may have created it, although its answer was lost.
  const { items } = created.status === 409 ? await made(operate('GET', '/operators/orgs?limit=1000')) : { items: [created.body] };
  const { org_id: id } = items.find((org: { name: string }) => org.name === name);
  const scopes = [...API_KEY_SCOPES];
  const { api_key: key } = await made(operate('POST', `/operators/orgs/${id}/keys`, { name: `${name} key`, scopes }));
  return { id, name, key };
}

export type Things = {
  readonly org: Org;
  /** A key of a project of the org that has none of these things. */
  readonly boundKey: string;
  /** A key of the org without scopes. */
  readonly scopelessKey: string;
  /** The value of a path parameter, or of a query parameter that names something of an org. */
  find(path: string, name: string): string | undefined;
  /** Ids of the org that nobody else may be shown. */
  readonly ids: readonly string[];
};

/** Makes something of every kind for an org. To cover a new kind, make one here and add the name of its parameter to `values`. */
export async function makeThings(server: IngestServer): Promise<Things> {
  const org = await makeOrg(server, MARK);
  const operate = callerWith(server, OPERATOR_TOKEN);
  const ask = callerWith(server, org.key);
  const project = async (name: string) =>
    (await made(operate('POST', `/operators/orgs/${org.id}/projects`, { name }))).project_id as string;
  const key = async (body: object) => made(operate('POST', `/operators/orgs/${org.id}/keys`, body));
  const [projectId, boundTo] = [await project(MARK), await project('another')];
  const bound = await key({ scopes: [...API_KEY_SCOPES], project_id: boundTo });
  const scopeless = await key({});
  await server.database.api.query(`UPDATE millrace.api_keys SET scopes = '{}' WHERE id = $1`, [scopeless.key_id]);
  const spare = await key({ name: MARK });

  const hook = server.origin.file('ok');
  const webhook = await made(ask('POST', '/v1/webhooks', { url: `${hook}?${MARK}`, events: ['job.failed_final'] }));
  const failing = { type: 'simulate', payload: { failure: 'permanent', note: undefined }, max_attempts: 1, tags: { team: MARK } };
  const failed = (await made(ask('POST', '/queue/v1/jobs', failing))).job_id as string;
  const waiting = {
    type: MARK,
    payload: { note: MARK },
    delay: 'PT1H',
    tags: { team: MARK },
    idempotency_key: MARK,
    project_id: projectId,
  };
  const queued = (await made(ask('POST', '/queue/v1/jobs', waiting))).job_id as string;
  const dying = { type: 'simulate', payload: { duration_ms: 1, failure: 'TEMPORARY' }, max_attempts: 1, tags: { team: MARK } };
  const dead = (await made(ask('POST', '/queue/v1/jobs', dying))).job_id as string;
  const { batch_id: batch } = await made(ask('POST', '/queue/v1/batches', {}));
  await made(ask('PUT', `/queue/v1/batches/${batch}/parts/0`, { jobs: [{ ...waiting, idempotency_key: undefined }] }));
  const { operation_id: operation } = await made(
    ask('POST', '/queue/v1/operations', { action: 'cancel', job_ids: [randomUUID()], reason: MARK }),
  );
  const { artifact_id: artifact } = await made(ask('POST', '/queue/v1/artifacts', { note: MARK }, { 'x-artifact-name': MARK }));
  const alert = { kind: 'dead_letter', severity: 'error', orgId: org.id, subject: `job:${MARK}`, message: MARK } as const;
  await raiseAlerts(server.database.api, [alert]);
  const { items: alerts } = await made(operate('GET', `/operators/alerts?org=${org.id}`));
  await made(ask('POST', '/queue/v1/schedules', { key: MARK, cron: '0 0 1 1 *', type: MARK, payload: { note: MARK } }));
  const execution = (await made(ask('POST', '/v1/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' }))).job_id as string;
  const resources = [{ id: MARK, url: `${server.origin.file('bytes')}?${MARK}` }];
  const ingest = (await made(ask('POST', '/jobs', manifest({ resources }), { 'x-fetchbox-job-type': 'default' }))).job_id as string;
  await until('the jobs of the first org have ended', async () => {
    const { body: first } = await ask('GET', `/queue/v1/jobs/${failed}`);
    const { body: second } = await ask('GET', `/v1/jobs/${execution}`);
    const { body: third } = await operate('GET', `/operators/jobs/${ingest}`);
    const { body: fourth } = await ask('GET', `/queue/v1/jobs/${dead}`);
    const states = [first.state, second.state, third.status, fourth.state].join();
    return states === 'FAILED,SUCCEEDED,completed,DEAD_LETTER';
  });
  let deliveries: { delivery_id: string }[] = [];
  await until('an event was delivered', async () => {
    deliveries = (await ask('GET', `/v1/webhooks/${webhook.webhook_id}/deliveries?state=delivered`)).body.deliveries;
    return deliveries.length > 0;
  });

  const values = new Map<string, string | ((path: string) => string)>([
    ['id', (path) => (path.endsWith('/failure') || path.endsWith('/retry') ? failed : queued)],
    [
      'job_id',
      (path) => {
        if (path.startsWith('/operators')) return ingest;
        return path.startsWith('/v1') ? execution : path.startsWith('/queue/v1/deadletter') ? dead : queued;
      },
    ],
    ['batch_id', batch],
    ['part', '0'],
    ['operation_id', operation],
    ['artifact_id', artifact],
    ['alert_id', alerts[0].alert_id],
    ['key', MARK],
    ['client_id', org.id],
    ['webhook_id', webhook.webhook_id],
    ['delivery_id', deliveries[0]?.delivery_id as string],
    ['org_id', org.id],
    ['org', org.name],
    ['tenant', org.name],
    ['project_id', projectId],
    ['key_id', spare.key_id],
    ['host', new URL(server.origin.url).host],
    ['pool', 'pool-of-the-tests'],
    ['ids', execution],
  ]);
  return {
    org,
    boundKey: bound.api_key,
    scopelessKey: scopeless.api_key,
    find: (path, name) => namesOfNoOrg(path, name) ?? ((value) => (typeof value === 'function' ? value(path) : value))(values.get(name)),
    ids: [
      dead,
      batch,
      operation,
      artifact,
      alerts[0].alert_id,
      org.id,
      projectId,
      failed,
      queued,
      execution,
      ingest,
      webhook.webhook_id,
      spare.key_id,
      MARK,
    ],
  };
}

/** Queues, types and tasks belong to the whole platform. */
function namesOfNoOrg(path: string, name: string): string | undefined {
  if (name === 'name' && path.startsWith('/operators/queues/')) return 'q:exports';
  if (name === 'name' && path.startsWith('/operators/maintenance/')) return 'alerts';
  return name === 'type' && path.startsWith('/operators/types/') ? 'type-of-nobody' : undefined;
}

export type Request = {
  readonly what: string;
  readonly method: string;
  readonly path: string;
  readonly body: object | undefined;
  /** Its path names something of the org. */
  readonly names: boolean;
  /** It takes an API key and nothing else. */
  readonly needsKey: boolean;
};

type Parameter = { name: string; in: string };
type Schema = {
  $ref?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  examples?: unknown[];
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  anyOf?: Schema[];
  const?: unknown;
};

/** Parameters of a path that name nothing of an org, and names that every org may give to something of its own. */
const OF_NO_ORG = new Set(['host', 'pool', 'key', 'name', 'type']);

/** Every operation as a request for the things of an org, without its query parameters and with those that name something. */
export function requestsFor(document: OpenApi, { find }: Things): Request[] {
  return Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
      const filled = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
        const value = find(template, name);
        if (value !== undefined) return encodeURIComponent(value);
        throw new Error(
          `${method} ${template} has the parameter "${name}", which is new. Make one in makeThings of test/http/org-matrix.ts, and add it to values there.`,
        );
      });
      const queries = ((operation as Operation & { parameters?: Parameter[] }).parameters ?? []).flatMap(({ name, in: place }) => {
        const value = place === 'query' ? find(template, name) : undefined;
        return value === undefined ? [] : [[name, value] as [string, string]];
      });
      const schema = operation.requestBody?.content['application/json']?.schema as Schema | undefined;
      const body =
        schema === undefined
          ? undefined
          : (bodyFor(operation.operationId) ?? (smallest(schema, { document, find: (name) => find(template, name) }) as object));
      const needsKey = operation.security.length > 0 && operation.security.every((each) => 'bearer' in each);
      const request = { method: method.toUpperCase(), body, names: names.some((name) => !OF_NO_ORG.has(name)), needsKey };
      const what = `${request.method} ${template}`;
      const plain = { ...request, what, path: filled };
      return queries.length === 0
        ? [plain]
        : [plain, { ...request, what: `${what}?${queries.map(([name]) => name)}`, path: `${filled}?${new URLSearchParams(queries)}` }];
    }),
  );
}

/** Bodies that do something, where the smallest one would not. */
function bodyFor(operationId: string): object | undefined {
  const bodies: Record<string, object> = {
    cancelJobs: { filter: { types: [MARK] } },
    updateJob: { priority: 'LOW' },
    fixForward: { payload: {} },
    changeSchedule: { paused: true },
    changeWebhook: { enabled: false },
    deleteOrg: { confirm: MARK },
    changeOrg: { name: `taken-${MARK}`.slice(0, 60) },
    submitManifest: manifest(),
    issueKey: { rotate: false },
  };
  return Object.hasOwn(bodies, operationId) ? bodies[operationId] : undefined;
}

type Source = { readonly document: OpenApi; find(name: string): string | undefined };

/** The smallest value that a schema allows, as far as the schemas of the document go. Members that name something name what the org has. */
function smallest(schema: Schema, source: Source): unknown {
  const { $ref, examples, properties, anyOf, items } = schema;
  if ($ref !== undefined) return smallest(source.document.components.schemas[$ref.split('/').at(-1) as string] as Schema, source);
  if (examples?.[0] !== undefined && properties === undefined) return examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  if (anyOf !== undefined) return smallest(anyOf[0] as Schema, source);
  const type = [schema.type ?? 'object'].flat()[0];
  if (type === 'object') return Object.fromEntries(membersOf(schema, source));
  if (type === 'array') return items === undefined ? [] : [smallest(items, source)];
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  return type === 'boolean' ? false : 'text';
}

function membersOf({ properties = {}, required = [] }: Schema, source: Source): [string, unknown][] {
  const named = Object.keys(properties).filter((name) => name.endsWith('_id') && source.find(name) !== undefined);
  return [...new Set([...required, ...named])].map((name) => [
    name,
    source.find(name) ?? smallest(properties[name] ?? { type: 'string' }, source),
  ]);
}
