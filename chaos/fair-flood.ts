// node chaos/fair-flood.ts [--jobs 1000000] [--tries 100] [--job-ms 5]: one org queues a million jobs from a process of its own, and two worker
// processes run them. Meanwhile another org submits one job after the other. Fails if the 99th percentile of its starts is above two
// seconds, if the flood runs at less than 90 % of its speed before and after that, or if that speed falls while the dead entries of
// claimed jobs grow in number.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Millrace } from '../src/index.ts';
import { createOrg } from '../src/ledger/access/orgs.ts';
import { type Database, openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { createPostgres } from './postgres-server.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000000' },
    tries: { type: 'string', default: '100' },
    'job-ms': { type: 'string', default: '5' },
  },
});
const [jobs, tries, jobMs] = [Number(values.jobs), Number(values.tries), Number(values['job-ms'])];

const scriptOf = (name: string): string => fileURLToPath(new URL(`./${name}.ts`, import.meta.url));

const LONGEST_START_MS = 2_000;
const LEAST_SPEED = 0.9;
/** The speed at the end, compared to the speed at the beginning. The machine may be busy with other work. */
const LEAST_FLAT = 0.6;
const BETWEEN_TRIES_MS = 250;
const ALONE_MS = 5_000;
const WARM_UP_MS = 2_000;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const children: ChildProcess[] = [];

async function start(name: string, ...args: string[]): Promise<ChildProcess> {
  const child = spawn(process.execPath, [scriptOf(name), ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

async function submitFlood(url: string, org: string): Promise<void> {
  const child = await start('flood-submitter', url, org, String(jobs));
  let shownMs = performance.now();
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (count) => {
    if (performance.now() - shownMs < 2_000) return;
    shownMs = performance.now();
    say(`  ${count} of ${jobs} submitted`);
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the submitter ended with ${code}`);
}

const clockOf = async (db: Database): Promise<Date> => (await db.api.query('SELECT millrace.clock() AS now')).rows[0].now;

/** Jobs of the org that completed each second. */
async function speedOf(db: Database, org: string, from: Date, until: Date): Promise<number> {
  const { rows } = await db.api.query(
    `SELECT coalesce(sum(cardinality(seqs)), 0)::int4 AS jobs FROM millrace.records
     WHERE org_id = $1 AND to_state = 'completed' AND at >= $2 AND at < $3`,
    [org, from, until],
  );
  return (rows[0].jobs * 1_000) / (until.getTime() - from.getTime());
}

/** How long the job of the other org waited for its start, by the database's clock. */
async function tryOnce(millrace: Millrace, db: Database): Promise<number> {
  const { jobId } = await millrace.submit({ type: 'flood', payload: {} });
  await millrace.waitFor(jobId, { timeout: '60s' });
  const { rows } = await db.api.query(
    `SELECT date_part('epoch', started_at - created_at)::float8 * 1000 AS ms FROM millrace.jobs WHERE id = $1`,
    [jobId],
  );
  return rows[0].ms;
}

const percentile = (sorted: readonly number[], share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number;

const failures: string[] = [];
const server = await createPostgres();
try {
  const db = openDatabase({ url: server.url });
  const [flood, calm] = [randomUUID(), randomUUID()];
  const millrace = await Millrace.open({ database: server.url });
  await createOrg(db.api, { id: flood, slug: 'flood' });
  await createOrg(db.api, { id: calm, slug: 'calm' });
  const other = await Millrace.open({ database: server.url, org: calm });
  say(`One org queues ${jobs} jobs.`);
  await submitFlood(server.url, flood);
  for (let n = 0; n < 2; n++) await once((await start('flood-worker', server.url, String(jobMs))).stdout as NodeJS.ReadableStream, 'data');
  await delay(WARM_UP_MS);
  const began = await clockOf(db);
  await delay(ALONE_MS);
  const aloneUntil = await clockOf(db);
  const before = await speedOf(db, flood, began, aloneUntil);
  say(`The flood alone: ${before.toFixed(0)} jobs/s.`);
  const waits: number[] = [];
  for (let n = 1; n <= tries; n++) {
    waits.push(await tryOnce(other, db));
    if (n % 10 === 0) say(`  ${n} of ${tries} tries, the last one started after ${waits.at(-1)?.toFixed(0)} ms`);
    await delay(BETWEEN_TRIES_MS);
  }
  const together = await clockOf(db);
  const speed = await speedOf(db, flood, aloneUntil, together);
  await delay(ALONE_MS);
  const last = await speedOf(db, flood, together, await clockOf(db));
  // The machine may be busy with other work, more at one time than at another.
  const alone = (before + last) / 2;
  const left = (await db.api.query('SELECT coalesce(sum(cardinality(seqs) - taken), 0)::int4 AS jobs FROM millrace.ready')).rows[0].jobs;
  const sorted = waits.toSorted((a, b) => a - b);
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
  say(
    `Starts of the other org over ${tries} tries: median ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, at most ${sorted.at(-1)?.toFixed(0)} ms.`,
  );
  say(
    `The flood with the other org: ${speed.toFixed(0)} jobs/s, ${((speed / alone) * 100).toFixed(0)} %. Alone again: ${last.toFixed(0)} jobs/s. ${left} jobs left.`,
  );
  if (p99 > LONGEST_START_MS) failures.push(`a job of the other org started after ${p99.toFixed(0)} ms at p99`);
  if (speed < alone * LEAST_SPEED) failures.push(`the flood ran at ${((speed / alone) * 100).toFixed(0)} % of its speed`);
  if (last < before * LEAST_FLAT) failures.push('claims became slower');
  if (left === 0) failures.push('the flood was over before the tries; use more --jobs');
  const violations = await checkInvariants(db.maintenance);
  if (violations.length > 0) failures.push(`${violations.length} invariants are broken, first: ${JSON.stringify(violations[0])}`);
  for (const each of [other, millrace]) await each.close({ grace: 0 });
  await db.close();
} finally {
  for (const child of children) child.kill('SIGKILL');
  await server.remove();
}
if (failures.length > 0) say(`FAILED: ${failures.join('; ')}`);
process.exitCode = failures.length > 0 ? 1 : 0;
