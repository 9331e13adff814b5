// node chaos/host-limit.ts [--seconds 60] [--quick]: four worker processes download from one host, which may have three requests at the same
// time. Every three seconds one process is killed with kill -9, or loses the session that stands for it. The server of the files counts the
// requests in flight. Fails if there were more than three, or if a resource was not downloaded.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Millrace, type Submission } from '../src/index.ts';
import { type Database, openDatabase } from '../src/ledger/driver/database.ts';
import { createPostgres } from './postgres-server.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '60' }, quick: { type: 'boolean', default: false } } });
const seconds = values.quick ? 15 : Number(values.seconds);
const SCRIPT = fileURLToPath(new URL('./download-worker.ts', import.meta.url));
const WORKERS = 4;
const LIMIT = 3;
const DISTURB_EVERY_MS = 3_000;
const RESPONSE_MS = 60;
const BODY = Buffer.alloc(2_000, 'x');
/** Fewer than the host could serve in the time, because the disturbances cost some of it. */
const TASKS = Math.ceil((seconds * 1_000 * LIMIT) / RESPONSE_MS / 3);

const workers: ChildProcess[] = [];

/** Counts each request until its response has ended or its connection is closed. */
function openOrigin() {
  const counts = { inFlight: 0, most: 0, requests: 0 };
  const server = createServer((_, response) => {
    counts.requests++;
    counts.most = Math.max(counts.most, ++counts.inFlight);
    response.once('close', () => counts.inFlight--);
    response.write(BODY.subarray(0, 1_000));
    setTimeout(() => response.end(BODY.subarray(1_000)), RESPONSE_MS);
  });
  return { server, counts };
}

async function startWorker(url: string, folder: string): Promise<void> {
  const child = spawn(process.execPath, [SCRIPT, url, folder, String(LIMIT)], { stdio: ['pipe', 'pipe', 'inherit'] });
  workers.push(child);
  await once(child.stdout as NodeJS.ReadableStream, 'data');
}

async function killOne(url: string, folder: string): Promise<void> {
  const victim = workers.splice(Math.floor(Math.random() * workers.length), 1)[0] as ChildProcess;
  victim.kill('SIGKILL');
  await once(victim, 'exit');
  await startWorker(url, folder);
}

/** One process loses the session that stands for it, and goes on running. */
async function endSession(db: Database): Promise<void> {
  await db.maintenance.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millrace downloads' ORDER BY random() LIMIT 1`,
  );
}

const submissionOf = (n: number, port: number): Submission => ({
  type: 'chaos.download',
  maxAttempts: 100,
  payload: {
    jobId: 'chaos',
    jobType: 'chaos',
    resourceId: String(n),
    url: `http://127.0.0.1:${port}/${n}`,
    headers: [],
    proxies: [],
    storage: { bucket: 'chaos', key: `chaos/${n}`, metadata: [] },
    tags: [],
  },
});

async function countOf(db: Database, isCompleted: boolean): Promise<number> {
  const { rows } = await db.maintenance.query(
    `SELECT count(*)::int4 AS n FROM millrace.jobs WHERE job_type = $1 AND (state = 'completed') = $2`,
    ['chaos.download', isCompleted],
  );
  return rows[0].n;
}

const failures: string[] = [];
const server = await createPostgres();
const folder = await mkdtemp(join(tmpdir(), 'host-limit-'));
const { server: origin, counts } = openOrigin();
origin.listen(0, '127.0.0.1');
await once(origin, 'listening');
try {
  const { port } = origin.address() as AddressInfo;
  const millrace = await Millrace.open({ database: server.url });
  const db = openDatabase({ url: server.url });
  for (let from = 0; from < TASKS; from += 1_000) {
    await millrace.submitMany(Array.from({ length: Math.min(1_000, TASKS - from) }, (_, n) => submissionOf(from + n, port)));
  }
  await Promise.all(Array.from({ length: WORKERS }, () => startWorker(server.url, folder)));
  const endMs = performance.now() + seconds * 1_000;
  let [kills, lost] = [0, 0];
  while (performance.now() < endMs) {
    await delay(DISTURB_EVERY_MS);
    if (kills <= lost) {
      await killOne(server.url, folder);
      kills++;
    } else {
      await endSession(db);
      lost++;
    }
  }
  const patienceMs = performance.now() + 240_000;
  while ((await countOf(db, false)) > 0 && performance.now() < patienceMs) await delay(500);
  const completed = await countOf(db, true);
  process.stdout.write(`processes killed: ${kills}, sessions ended: ${lost}\n`);
  process.stdout.write(`the most requests at the same time: ${counts.most} of at most ${LIMIT}, in ${counts.requests} requests\n`);
  process.stdout.write(`resources downloaded: ${completed} of ${TASKS}\n`);
  if (counts.most > LIMIT) failures.push(`${counts.most} requests were in flight`);
  if (completed !== TASKS) failures.push(`${TASKS - completed} resources were not downloaded`);
  await db.close();
  await millrace.close();
} finally {
  for (const worker of workers) worker.kill('SIGKILL');
  origin.closeAllConnections();
  origin.close();
  await server.remove();
  await rm(folder, { recursive: true, force: true });
}
for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
