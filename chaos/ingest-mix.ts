// node chaos/ingest-mix.ts [--seed 14] [--minutes 10]: sends one manifest with 1 000 resources to a server process. A worker process downloads
// them from servers of which half misbehave, and is killed with kill -9 three times. Meanwhile all objects are listed and compared with what
// they must contain. Fails if a resource ends otherwise than the table of chaos/ingest-origin.ts says, if an object is visible that is not
// complete, if a process grows by more than 64 MB, or if the time is over.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { FolderStore } from '../src/objects/folder-store.ts';
import { MAX_MIB, openOrigins, type Resource, resourcesOf } from './ingest-origin.ts';
import { residentMb } from './memory-watch.ts';
import { createPostgres } from './postgres-server.ts';

const { values } = parseArgs({ options: { seed: { type: 'string', default: '14' }, minutes: { type: 'string', default: '10' } } });
const PROGRAM = fileURLToPath(new URL('../bin/millrace.js', import.meta.url));
const TOKEN = 'operator-token-of-the-chaos';
const BUCKET = 'fetchbox';
const KILLS_AT = [0.15, 0.4, 0.65];
const GROWTH_MB = 64;
const WARM_UP = 200;

const failures: string[] = [];
const fail = (message: string): void => {
  if (failures.length < 50) failures.push(message);
};

/** A process of the program, and the most memory it held. */
class Part {
  readonly #child: ChildProcess;
  readonly ready: Promise<Record<string, string>>;
  readonly #timer: NodeJS.Timeout;
  mostMb = 0;

  constructor(args: readonly string[], environment: Readonly<Record<string, string>>) {
    const child = spawn(process.execPath, [PROGRAM, ...args, '--json'], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const ready = Promise.withResolvers<Record<string, string>>();
    this.ready = ready.promise;
    child.once('exit', (code, signal) => ready.reject(new Error(`"millrace ${args.join(' ')}" ended with ${signal ?? code}`)));
    lines.on('line', (line) => {
      const said = JSON.parse(line);
      ready.resolve(said);
      if (said.event === 'fault') fail(`a fault: ${line}`);
    });
    this.#timer = setInterval(() => {
      try {
        this.mostMb = Math.max(this.mostMb, residentMb(child.pid as number));
      } catch {
        clearInterval(this.#timer); // It has just ended.
      }
    }, 200).unref();
  }

  async kill(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: it looks at answers as they come
async function call(url: string, init: RequestInit = {}): Promise<any> {
  const response = await fetch(url, { ...init, headers: { authorization: `Bearer ${TOKEN}`, ...init.headers } });
  const body = await response.json();
  if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(body)}`);
  return body;
}

async function submit(url: string, resources: readonly Resource[]): Promise<string> {
  const body = JSON.stringify({
    manifest_version: 'v1',
    metadata: {},
    resources: resources.map(({ id, url, tags }) => ({ id, url, tags })),
  });
  const headers = { 'content-type': 'application/json', 'x-fetchbox-job-type': 'default' };
  return (await call(`${url}/jobs`, { method: 'POST', headers, body })).job_id;
}

type Shown = { id: string; status: string; error: { code: string } | null; sha256: string | null };

async function resourcesIn(url: string, jobId: string): Promise<Map<string, Shown>> {
  const all = new Map<string, Shown>();
  let cursor = '';
  do {
    const page = await call(`${url}/operators/jobs/${jobId}/resources?limit=1000${cursor}`);
    for (const each of page.items as Shown[]) all.set(each.id, each);
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`;
  } while (cursor !== '');
  return all;
}

/** Lists the objects of a job again and again. Each must have its whole content when it is seen first, and when it is replaced. */
class Watcher {
  readonly #store: FolderStore;
  readonly #prefix: string;
  readonly #expected: ReadonlyMap<string, Resource>;
  readonly #checked = new Set<string>();
  looks = 0;

  constructor(store: FolderStore, jobId: string, resources: readonly Resource[]) {
    this.#store = store;
    this.#prefix = `default/${jobId}/`;
    this.#expected = new Map(resources.map((resource) => [resource.id, resource]));
  }

  get objects(): number {
    return new Set([...this.#checked].map((each) => each.split(' ')[0])).size;
  }

  async look(): Promise<void> {
    this.looks++;
    let after: string | undefined;
    do {
      const page: Awaited<ReturnType<FolderStore['list']>> = await this.#store.list({
        bucket: BUCKET,
        prefix: this.#prefix,
        after,
        limit: 1_000,
      });
      for (const { key, size, modifiedAt } of page.items) await this.#check(key, `${key} ${modifiedAt.getTime()} ${size}`);
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  async #check(key: string, version: string): Promise<void> {
    if (this.#checked.has(version)) return;
    const found = await this.#store.get({ bucket: BUCKET, key });
    if (found === null) return fail(`${key} was visible and is gone`);
    const hash = createHash('sha256');
    for await (const piece of found.body) hash.update(piece);
    const end = this.#expected.get(key.slice(this.#prefix.length))?.end;
    if (end === undefined || !('stored' in end)) fail(`${key} is visible and must not be`);
    else if (hash.digest('hex') !== end.stored) fail(`${key} is visible and not complete`);
    this.#checked.add(version);
  }
}

const began = performance.now();
const secondsSince = (): string => `${((performance.now() - began) / 1_000).toFixed(0)} s`;
const say = (text: string): void => void process.stdout.write(`${secondsSince()}: ${text}\n`);
const postgres = await createPostgres();
const folder = await mkdtemp(join(tmpdir(), 'ingest-mix-'));
const origins = await openOrigins();
const environment = {
  MILLRACE_HOME: folder,
  DATABASE_URL: postgres.url,
  MILLRACE_OPERATOR_TOKEN: TOKEN,
  MILLRACE_EGRESS_ALLOW: '127.0.0.1/32',
  MILLRACE_DOWNLOADS_MAX_SIZE: `${MAX_MIB}MB`,
  MILLRACE_DOWNLOADS_IDLE_TIMEOUT: '5s',
  MILLRACE_DOWNLOADS_HOST_CONCURRENCY: '16',
};
const parts: Part[] = [];
const start = async (...args: string[]): Promise<Part & { said: Record<string, string> }> => {
  const part = new Part(args, environment);
  parts.push(part);
  return Object.assign(part, { said: await part.ready });
};
const startWorker = () => start('work', '--concurrency', '16');

try {
  const migration = new Part(['migrate'], environment);
  await migration.ready;
  const server = await start('serve', '--port', '0');
  const { url } = server.said as { url: string };
  let worker = await startWorker();
  const workers: Part[] = [worker];
  const resources = resourcesOf(Number(values.seed), origins);
  const deadlineMs = performance.now() + Number(values.minutes) * 60_000;
  const isOver = () => performance.now() > deadlineMs;
  const progressOf = async (jobId: string) => {
    const { status, resource_completed, resource_failed, resource_total } = await call(`${url}/operators/jobs/${jobId}`);
    return { hasEnded: status === 'completed' || status === 'failed', ended: resource_completed + resource_failed, total: resource_total };
  };

  // A process that has downloaded a few files of up to 5 MB has its code and its buffers. Larger and endless files must not need more.
  const first = await submit(
    url,
    resources
      .filter(({ url, tags }) => /size\/[15]\d+\?/.test(url) && !url.includes('/size/52428800') && !('checksum_hint' in tags))
      .slice(-WARM_UP),
  );
  while (!(await progressOf(first)).hasEnded && !isOver()) await delay(200);
  const [serverMb, workerMb] = [server.mostMb, worker.mostMb];
  say(`the server holds ${serverMb.toFixed(0)} MB and the worker ${workerMb.toFixed(0)} MB when they are warm`);

  const jobId = await submit(url, resources);
  const watcher = new Watcher(new FolderStore(join(folder, 'objects')), jobId, resources);
  let isDone = false;
  const watching = (async () => {
    while (!isDone) {
      await watcher.look();
      await delay(20);
    }
  })();
  const kills = [...KILLS_AT];
  for (;;) {
    const { hasEnded, ended, total } = await progressOf(jobId);
    if (hasEnded || isOver()) break;
    if (kills[0] !== undefined && ended >= kills[0] * total) {
      kills.shift();
      await worker.kill();
      say(`killed the worker after ${ended} of ${total} resources`);
      worker = await startWorker();
      workers.push(worker);
    }
    await delay(100);
  }
  isDone = true;
  await watching;
  await watcher.look();

  const shown = await resourcesIn(url, jobId);
  const ends = new Map<string, number>();
  for (const { id, url, end } of resources) {
    const { status, error, sha256 } = shown.get(id) ?? { status: 'missing', error: null, sha256: null };
    const wanted = 'stored' in end ? `completed ${end.stored}` : `failed ${end.failed}`;
    const actual = status === 'completed' ? `completed ${sha256}` : `${status} ${error?.code}`;
    if (actual !== wanted) fail(`${id} ${url}: ${actual} and not ${wanted}`);
    const word = status === 'completed' ? status : actual;
    ends.set(word, (ends.get(word) ?? 0) + 1);
  }
  const stored = resources.filter(({ end }) => 'stored' in end).length;
  if (watcher.objects !== stored) fail(`${watcher.objects} objects are visible and not ${stored}`);
  if (kills.length > 0) fail(`${kills.length} kills did not happen`);
  say(`${resources.length} resources ended: ${[...ends].map(([word, count]) => `${count} ${word}`).join(', ')}`);
  say(`${watcher.objects} objects were checked in ${watcher.looks} looks at the store`);
  const growth = [server.mostMb - serverMb, Math.max(...workers.map(({ mostMb }) => mostMb)) - workerMb] as const;
  say(`the server grew by ${growth[0].toFixed(0)} MB, the worker by ${growth[1].toFixed(0)} MB, of at most ${GROWTH_MB} MB`);
  for (const [index, name] of ['server', 'worker'].entries()) {
    if ((growth[index] as number) > GROWTH_MB) fail(`the ${name} grew by more than ${GROWTH_MB} MB`);
  }
} finally {
  for (const part of parts) await part.kill();
  await Promise.all(origins.map((origin) => origin.close()));
  await postgres.remove();
  await rm(folder, { recursive: true, force: true });
}
for (const failure of failures) process.stderr.write(`failed: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;
