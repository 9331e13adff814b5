/** Row-level security behind every read of every door: what the statements forget, the database keeps. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { Contract, type OpenApi } from './contract.ts';
import { useIngest } from './ingest-fixture.ts';
import { callerWith, makeOrg, makeThings, type Request, requestsFor, type Things } from './org-matrix.ts';

const server = useIngest({
  concurrency: 4,
  toml: '[ingest]\nauth = "key"\nallow_unlisted_job_types = true\n[limits]\nrequests_per_minute = 100000',
});

/** Statements of reads that do not run as the reader, each with its reason (decision 0064). */
const EXEMPT: ReadonlyMap<string, string> = new Map([
  ['find_api_keys', 'a key says which org calls, so there is no org yet'],
  ['find_sealing_key', 'it reads no row of an org'],
  ['search_horizon', 'it reads no row of an org'],
  ['get_jobs_of_orgs', 'one statement for callers of many orgs'],
  ['job_histories_of_orgs', 'one statement for callers of many orgs'],
  ['read_job_news', 'one statement for callers of many orgs'],
  ['read_org_news', 'one statement for callers of many orgs'],
  ['feed_page', 'one statement for callers of many orgs'],
  ['find_ended', 'one statement for callers of many orgs'],
  ['has_new_entries', 'it returns no row of an org'],
  ['head_of_stream', 'it reads no row of an org'],
  ['explain_job', 'it counts jobs of all orgs, after the job was read as the reader'],
  ['explain_turn', 'it counts jobs of all orgs, after the job was read as the reader'],
  ['list_orgs', 'it finds the org that an operator names, before that org is known'],
]);

type Rewrite = (config: { name?: string; text: string; values?: unknown[] }) => { name?: string; text: string; values?: unknown[] };

const own = pg.Client.prototype.query;
let rewrite: Rewrite | null = null;
/** Statements on sessions of the API that see every org, since they were last cleared. */
const unlocked = new Set<string>();

/** Where every statement of this process passes, and a test may change it. */
beforeAll(() => {
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [config, ...rest] = args;
    const { application_name: name } = (this as unknown as { connectionParameters: { application_name: string } }).connectionParameters;
    const isNamed = typeof config === 'object' && config !== null && 'text' in config && 'name' in config;
    if (isNamed && name === 'millrace api') unlocked.add(String((config as { name: string }).name).replace('millrace_', ''));
    const isLocked = name === 'millrace reader' || name === 'millrace searcher';
    const sent = isNamed && isLocked && rewrite !== null ? rewrite(config as { name: string; text: string }) : config;
    return Reflect.apply(own, this, [sent, ...rest]);
  } as typeof own;
});
afterAll(() => {
  pg.Client.prototype.query = own;
});

let things: Things;
let reads: Request[];

beforeAll(async () => {
  things = await makeThings(server);
  const contract = new Contract((await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi);
  reads = requestsFor(contract.document, things).filter(({ method, path }) => method === 'GET' || path.endsWith('/search'));
}, 120_000);

const CONDITION = /\(?\b(?:\w+\.)?org_id = (\$\d+)(?:::uuid)?\b\)?(?: IS TRUE)?/g;

/** The condition that keeps orgs apart is forgotten. */
const forgetful: Rewrite = ({ name, text, values }) => {
  const open = text.replace(CONDITION, (found, parameter: string) => {
    const balance = found.split('(').length - found.split(')').length;
    return `${'('.repeat(Math.max(0, balance))}(${parameter}::uuid IS NOT NULL)${')'.repeat(Math.max(0, -balance))}`;
  });
  return { name: `${name}_open`, text: open, values };
};

/** Sends every read as a caller, and answers what it saw of the first org. */
async function readAll(key: string): Promise<{ leaks: string[]; failures: string[] }> {
  const [leaks, failures]: [string[], string[]] = [[], []];
  for (const { what, method, path, body } of reads) {
    const { status, text } = await callerWith(server, key)(method, path, body);
    const sent = `${decodeURIComponent(path)} ${JSON.stringify(body ?? null)}`;
    if (things.ids.some((id) => text.includes(id) && !sent.includes(id)) || (status === 200 && text.includes(things.org.id)))
      leaks.push(what);
    if (status >= 500) failures.push(`${what} -> ${status} ${text}`);
  }
  return { leaks, failures };
}

describe('row-level security', () => {
  it('is under every read of one org, except for the statements that are listed [AB-sec.02]', async () => {
    unlocked.clear();
    const { leaks, failures } = await readAll(things.org.key);
    expect(failures).toEqual([]);
    expect(leaks.length).toBeGreaterThan(15); // The org sees its own things.
    const texts = new Map(allStatements().map(({ name, text, writes }) => [name.replace('millrace_', ''), { text, writes }]));
    const seen = [...unlocked].filter((name) => {
      const { text = '', writes = false } = texts.get(name) ?? {};
      // A loop beside the requests may lock a row meanwhile. The reader has no right to, so such a statement serves no read.
      const locks = /\bFOR (?:NO KEY )?UPDATE\b/.test(text);
      return !writes && !locks && /\bmillrace\.\w/.test(text.replaceAll(/millrace\.(?:clock|txid)\w*\(/g, ''));
    });
    const what = 'These reads of one org run on sessions that see every org. Use database.reads.of(orgId), or list them here with a reason';
    expect(
      seen.filter((name) => !EXEMPT.has(name)),
      what,
    ).toEqual([]);
    expect(seen, 'the watch sees what runs without the lock').toContain('get_jobs_of_orgs');
  });

  it('returns nothing of another org when every statement forgets its condition [AB-sec.02] [AB-sec.04]', async () => {
    const stranger = await makeOrg(server, 'stranger-behind-the-lock');
    rewrite = forgetful;
    try {
      expect(await readAll(stranger.key)).toEqual({ leaks: [], failures: [] });
    } finally {
      rewrite = null;
    }
  });

  /** Last, because it leaves sessions without the role. */
  it('is what hides them: without the role the same statements show things of the other org', async () => {
    const unlocking: Rewrite = (config) => {
      const text = `SELECT set_config('role', 'none', false), set_config('millrace.org_id', $1, false)`;
      return config.name === 'millrace_set_org' ? { ...config, name: 'millrace_set_org_without_role', text } : config;
    };
    // Also while the org is made: a session that has read for an org keeps its role for the next read of that org.
    rewrite = unlocking;
    const stranger = await makeOrg(server, 'stranger-without-a-lock');
    rewrite = (config) => (config.name === 'millrace_set_org' ? unlocking(config) : forgetful(config));
    try {
      const { leaks } = await readAll(stranger.key);
      expect(leaks).toEqual(
        expect.arrayContaining([
          ...['POST /queue/v1/jobs/search', 'POST /queue/v1/failures/search', 'GET /v1/jobs', 'GET /v1/reports', 'GET /v1/webhooks'],
          ...['GET /v1/clients/me', 'GET /operators/jobs/{job_id}', 'GET /operators/jobs/{job_id}/logs'],
        ]),
      );
    } finally {
      rewrite = null;
    }
  });
});

describe('a statement for callers of many orgs', () => {
  const together = [...EXEMPT].filter(([, reason]) => reason.includes('many orgs')).map(([name]) => name);

  it.each(together)('%s joins each row on the org of its caller', (name) => {
    const text = allStatements().find((each) => each.name === `millrace_${name}`)?.text ?? '';
    expect(text).toMatch(/::uuid\[\]/);
    expect(text).toMatch(/\borg_id = \w+\.org_id\b|\borg_id = ANY\(\$1::uuid\[\]\)/);
  });
});
