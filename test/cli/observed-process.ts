import { expect } from 'vitest';
import { createKey } from '../../src/services/access/create-key.ts';
import type { TestLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { folderWith, type Running, start } from './program.ts';

/** A process that serves /metrics. */
export type Observed = { readonly program: Running; readonly url: string };

/** One line of a scrape. */
export type Series = { readonly name: string; readonly labels: Readonly<Record<string, string>>; readonly value: number };

const QUICK = '[simulation]\ntime_scale = 0.01\n[auth]\nopen_calls_per_minute = 10000\n[limits]\nrequests_per_minute = 100000\n';

export async function startUp(ledger: TestLedger, { settings = '', args = [] as string[], env = {} } = {}): Promise<Observed> {
  const cwd = folderWith({ 'millrace.toml': `${QUICK}${settings}` });
  const program = start(['up', '--port', '0', ...args], { database: ledger.db.url, cwd, env });
  const [, url] = await program.said(/address +(\S+)\n[\s\S]*Stop with/);
  return { program, url: url as string };
}

export async function startWork(ledger: TestLedger, args: readonly string[] = [], files: Record<string, string> = {}): Promise<Observed> {
  const cwd = folderWith({ 'millrace.toml': QUICK, ...files });
  const program = start(['work', ...args, '--port', '0', '--concurrency', '4'], { database: ledger.db.url, cwd });
  const [, url] = await program.said(/metrics (\S+)\/metrics\n[\s\S]*Stop with/);
  return { program, url: url as string };
}

const LINE = /^([a-z_:]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** A scrape that has the values of the ledger: without them, if the database took more than a second, every counter would be missing. */
export async function scrape(url: string): Promise<{ text: string; series: Series[] }> {
  let text = '';
  await until('a scrape reads the ledger', async () => {
    text = await (await fetch(`${url}/metrics`)).text();
    return text.includes('\nledger_up 1\n');
  });
  const series = text.split('\n').flatMap((line): Series[] => {
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined) return [];
    return [{ name, labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key, text])), value: Number(value) }];
  });
  return { text, series };
}

/** The sum of all series of a metric that have these labels. */
export async function total(url: string, name: string, labels: Record<string, string> = {}): Promise<number> {
  const { series } = await scrape(url);
  const matching = series.filter(
    (each) => each.name === name && Object.entries(labels).every(([key, value]) => each.labels[key] === value),
  );
  return matching.reduce((sum, { value }) => sum + value, 0);
}

type KeyOptions = Pick<Parameters<typeof createKey>[1], 'scopes'>;

export async function keyOf(ledger: TestLedger, options: KeyOptions = {}): Promise<{ orgId: string; headers: Record<string, string> }> {
  const orgId = await ledger.newOrg();
  const { key } = await createKey(ledger.db, { orgId, ...options });
  return { orgId, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } };
}

type Call = { headers: Record<string, string>; body?: object };

export async function post<T = { job_id: string }>(url: string, { headers, body = {} }: Call): Promise<T> {
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  expect([url, response.status, response.status < 300 ? '' : await response.clone().text()]).toEqual([url, response.status, '']);
  return (await response.json()) as T;
}

/** Waits for a log line with these fields, and returns it. */
export async function logged(program: Running, fields: Record<string, unknown>): Promise<Record<string, unknown>> {
  const matches = (line: Record<string, unknown>) => Object.entries(fields).every(([name, value]) => line[name] === value);
  // The newest lines say what happened instead.
  const look = () => program.logs.find(matches) ?? program.errors.split('\n').slice(-5);
  await until(`the log has a line with ${JSON.stringify(fields)}`, look, (seen) => !Array.isArray(seen));
  return program.logs.find(matches) as Record<string, unknown>;
}
