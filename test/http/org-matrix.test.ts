import { beforeAll, describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { until } from '../until.ts';
import { Contract, type OpenApi } from './contract.ts';
import { useIngest } from './ingest-fixture.ts';
import { callerWith, MARK, makeOrg, makeThings, OPERATOR_TOKEN, type Org, type Request, requestsFor, type Things } from './org-matrix.ts';

const server = useIngest({
  concurrency: 4,
  toml: '[ingest]\nauth = "key"\nallow_unlisted_job_types = true\n[limits]\nrequests_per_minute = 100000\n[proxies."pool-of-the-tests"]\nurls = ["http://127.0.0.1:1"]',
});

let things: Things;
let other: Org;
let requests: Request[];
let operatorKey: string;

beforeAll(async () => {
  things = await makeThings(server);
  other = await makeOrg(server, 'the-other-org');
  const scopes = ['operator'];
  operatorKey = (await callerWith(server, OPERATOR_TOKEN)('POST', `/operators/orgs/${other.id}/keys`, { scopes })).body.api_key;
  const contract = new Contract((await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi);
  requests = requestsFor(contract.document, things);
  await until('nothing of the first org is under way', () => unfinished(server), []);
}, 120_000);

/** What loops will still change of what there is. Each question comes after the one whose answer may add to its own. */
async function unfinished({ database }: typeof server): Promise<string[]> {
  const questions = {
    'dead letters without an alert': 'millrace.dead_letters WHERE NOT is_alerted',
    'alerts that were not announced': 'millrace.alerts WHERE announced_at IS NULL',
    'operations that have not finished': 'millrace.operations WHERE finished_at IS NULL',
    'ingest jobs that are not settled': 'millrace.ingest_jobs WHERE settled_at IS NULL',
    'events that were not dispatched': `millrace.records WHERE org_id = '${things.org.id}'
      AND txid >= (SELECT txid FROM millrace.projections WHERE name = 'webhooks')`,
    'deliveries that have not ended': 'millrace.webhook_deliveries WHERE ended_at IS NULL',
  };
  const left: string[] = [];
  for (const [what, rows] of Object.entries(questions))
    if ((await database.maintenance.query(`SELECT FROM ${rows} LIMIT 1`)).rows.length > 0) left.push(what);
  return left;
}

/** Sums, permits, claims and the like follow what happened, some time later. */
const DERIVED = new Set([
  'rollups',
  'rollup_latencies',
  'live_totals',
  'seq_spans',
  'rate_leases',
  'quota_uses',
  'tagged_jobs',
  'changed_jobs',
  'webhook_lanes',
  'queue_starts',
  'claims',
  'audit_actions',
  'audit_rows',
  'audit_chains',
]);

/** Every row of the first org in every table that has an org, as text. */
async function rowsOfFirst(caller: string | null): Promise<Set<string>> {
  const { maintenance } = server.database;
  const { rows: tables } = await maintenance.query(
    `SELECT c.relname AS name, a.attname AS org FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
       AND a.attname = CASE WHEN c.relname = 'orgs' THEN 'id' ELSE 'org_id' END
     WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`,
  );
  expect(tables.length).toBeGreaterThan(40);
  const all = new Set<string>();
  for (const { name, org } of tables) {
    if (DERIVED.has(name)) continue;
    const { rows } = await maintenance.query(
      `SELECT (to_jsonb(t) - 'last_used_at' - 'stream_offset' - 'first_offset')::text AS row FROM millrace.${name} t WHERE t.${org} = $1`,
      [things.org.id],
    );
    // A key may renew itself.
    const own = caller === null ? null : `"id": "${caller.split('_')[1]}"`;
    for (const { row } of rows) if (name !== 'api_keys' || own === null || !row.includes(own)) all.add(`${name} ${row}`);
  }
  return all;
}

/** What an answer shows of the first org beyond what the request itself named. */
const shown = (text: string, { path, body }: Request): string[] => {
  const sent = `${decodeURIComponent(path)} ${JSON.stringify(body ?? null)}`;
  return things.ids.filter((id) => text.includes(id) && !sent.includes(id));
};

const STRANGERS: readonly (readonly [string, () => string | null, 'of another org' | 'of the org'])[] = [
  ['nobody', () => null, 'of another org'],
  ['a key of another org', () => other.key, 'of another org'],
  ['an operator key of another org', () => operatorKey, 'of another org'],
  ['a key without scopes', () => things.scopelessKey, 'of the org'],
  ['a key of another project', () => things.boundKey, 'of the org'],
];

/** First, because keys of the org may add things of their own, which then change. */
it('the operator token is refused wherever a key is needed, and changes nothing there [N04]', async () => {
  const before = await rowsOfFirst(null);
  const keyed = requests.filter(({ needsKey }) => needsKey);
  expect(keyed.length).toBeGreaterThan(40);
  for (const { what, method, path, body } of keyed) {
    expect([what, (await callerWith(server, OPERATOR_TOKEN)(method, path, body)).status]).toEqual([what, 401]);
  }
  expect(await rowsOfFirst(null)).toEqual(before);
});

describe.each(STRANGERS)('%s', (who, keyOf, kind) => {
  it('sees nothing of the first org and changes nothing there, at every operation [AB-sec.01] [AB-sec.02] [AB-sec.04]', {
    timeout: 120_000,
  }, async () => {
    const before = await rowsOfFirst(keyOf());
    expect([...before].filter((row) => row.includes(MARK)).length).toBeGreaterThan(5);
    const ask = callerWith(server, keyOf());
    const findings: string[] = [];
    for (const request of requests) {
      const headers: Record<string, string> =
        request.path === '/jobs' ? { 'x-fetchbox-job-type': 'default', 'x-fetchbox-tenant': things.org.name } : {};
      const { status, text } = await ask(request.method, request.path, request.body, headers);
      // A key of the org knows its org.
      const leaks = shown(text, request).filter((id) => kind === 'of another org' || id !== things.org.id);
      if (leaks.length > 0) findings.push(`${request.what} -> ${status} shows ${leaks.join(', ')}`);
      if (text.includes(MARK) && !JSON.stringify([decodeURIComponent(request.path), request.body]).includes(MARK))
        findings.push(`${request.what} shows the mark`);
      if (status >= 500) findings.push(`${request.what} -> ${status} ${text}`);
      if (kind === 'of another org' && request.names && ![401, 403, 404].includes(status))
        findings.push(`${request.what} -> ${status} ${text.slice(0, 200)}`);
    }
    expect(findings, who).toEqual([]);
    const after = await rowsOfFirst(keyOf());
    expect([...before].filter((row) => !after.has(row))).toEqual([]);
    // A key of the org may add things of its own.
    if (kind === 'of another org') expect([...after].filter((row) => !before.has(row))).toEqual([]);
  });
});

it('a parameter that is new is named, with the place to add it', () => {
  const document = {
    paths: { '/new/{moon_id}': { get: { operationId: 'moon', security: [], responses: {} } } },
    components: { schemas: {} },
  };
  expect(() => requestsFor(document as unknown as OpenApi, things)).toThrow(
    /"moon_id", which is new\. Make one in makeThings of test\/http\/org-matrix\.ts/,
  );
});

/** Last, because it changes and removes what the first org has. What others ask in vain must exist for those who may have it. */
it('the org itself or the operator reaches every one of these things [N04]', { timeout: 120_000 }, async () => {
  const order = (request: Request) =>
    request.method === 'GET' ? 0 : request.method === 'DELETE' ? 20 - request.path.split('/').length : 1;
  const sorted = [...requests].sort((left, right) => order(left) - order(right));
  const findings: string[] = [];
  const scopes = [...API_KEY_SCOPES];
  const newKey = async () =>
    (await callerWith(server, OPERATOR_TOKEN)('POST', `/operators/orgs/${things.org.id}/keys`, { scopes })).body.api_key as string;
  for (const request of sorted) {
    if (!request.names) continue;
    // Some operations end the key that they are sent with.
    const key = request.path.startsWith('/operators') ? OPERATOR_TOKEN : await newKey();
    const { status, text } = await callerWith(server, key)(request.method, request.path, request.body);
    if ([401, 403, 404].includes(status) || status >= 500) findings.push(`${request.what} -> ${status} ${text.slice(0, 200)}`);
  }
  expect(findings).toEqual([]);
});
