/**
 * Downloads many small files and one large file from a server on this machine: through `POST /jobs` of a server with workers, ledger, checksums
 * and a folder of objects, and with the programs that people would use instead. All of them write into the same file system, in turns.
 * `npm run bench -- --only downloads` prints the figures. DOWNLOADS_FOLDER is where files are written, for example a folder in memory.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CURL, PROGRAMS, type Program, runProgram, type Took } from './download-programs.ts';
import { OPERATOR_TOKEN } from './download-server.ts';

const LANES = 64;
const BYTES = 4_096;
/** As many as the server accepts in one manifest. */
const PER_MANIFEST = 1_000;
/** Looking at jobs with many resources every 50 ms took a fifth of the database's time. A look at a job with one costs nothing. */
const POLL_MS = { many: 200, one: 20 };
const MEGABYTE = 1_048_576;

export const SMALL_BAR = 1.5;
export const LARGE_BAR = 0.8;
/** What buffers and the garbage collector may take while a file of any size passes. */
export const MEMORY_BAR_MB = 200;

/** `durable`: until the files of the program were on the disk, as those of Millrace are. */
export type Rates = { readonly plain: number; readonly durable: number };

export type DownloadFigures = {
  readonly files: number;
  readonly megabytes: number;
  /** Files per second; null for a program that is not installed. */
  readonly small: { readonly millrace: number; readonly others: ReadonlyMap<string, Rates | null> };
  /** Megabytes per second. */
  readonly large: { readonly millrace: number; readonly curl: Rates | null };
  readonly memoryMb: number;
};

async function start(file: string, args: readonly string[]): Promise<{ child: ChildProcess; url: string }> {
  const child = fork(new URL(file, import.meta.url), args);
  const [port] = await once(child, 'message');
  return { child, url: `http://127.0.0.1:${port}` };
}

async function stop({ child }: { child: ChildProcess }): Promise<void> {
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(process.env.DOWNLOADS_FOLDER ?? tmpdir(), 'bench-downloads-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** From the first submission until the last job is completed. */
async function throughServer(server: string, manifests: readonly (readonly string[])[]): Promise<number> {
  const startMs = performance.now();
  const jobs = await Promise.all(manifests.map((urls) => submit(server, urls)));
  const isOne = manifests.length === 1 && manifests[0]?.length === 1;
  for (const job of jobs) await completed(server, job, isOne ? POLL_MS.one : POLL_MS.many);
  return (performance.now() - startMs) / 1_000;
}

async function submit(server: string, urls: readonly string[]): Promise<string> {
  const resources = urls.map((url, n) => ({ id: String(n), url }));
  const headers = { 'content-type': 'application/json', 'x-fetchbox-job-type': 'default' };
  const body = JSON.stringify({ manifest_version: 'v1', metadata: {}, resources });
  const response = await fetch(`${server}/jobs`, { method: 'POST', headers, body });
  const answer = (await response.json()) as { job_id: string };
  if (response.status !== 202) throw new Error(`the manifest was not accepted: ${response.status} ${JSON.stringify(answer)}`);
  return answer.job_id;
}

async function completed(server: string, job: string, pollMs: number): Promise<void> {
  for (;;) {
    const response = await fetch(`${server}/operators/jobs/${job}`, { headers: { authorization: `Bearer ${OPERATOR_TOKEN}` } });
    const { status, resource_failed: failed } = (await response.json()) as { status: string; resource_failed: number };
    if (status === 'completed' && failed === 0) return;
    if (status === 'completed' || status === 'failed' || response.status !== 200) throw new Error(`the job ended with ${status}`);
    await sleep(pollMs);
  }
}

const ratesOf = (amount: number, took: Took | null): Rates | null =>
  took === null ? null : { plain: Math.round(amount / took.seconds), durable: Math.round(amount / took.durableSeconds) };
const inTurn = (program: Program, urls: readonly string[]) => inFolder((folder) => runProgram(program, urls, folder));

async function memoryOf({ child }: { child: ChildProcess }): Promise<number> {
  child.send('memory');
  const [bytes] = await once(child, 'message');
  return bytes as number;
}

export async function measureDownloads(database: string, size: { files: number; megabytes: number }): Promise<DownloadFigures> {
  const { files, megabytes } = size;
  const origin = await start('./download-origin.ts', [String(BYTES), String(megabytes)]);
  try {
    return await inFolder(async (folder) => {
      const server = await start('./download-server.ts', [database, folder, String(LANES)]);
      try {
        const urls = Array.from({ length: files }, (_, n) => `${origin.url}/file-${n}`);
        const manifests = Array.from({ length: Math.ceil(files / PER_MANIFEST) }, (_, n) =>
          urls.slice(n * PER_MANIFEST, (n + 1) * PER_MANIFEST),
        );
        // The first jobs start connections and threads, and compile code.
        await throughServer(server.url, [urls.slice(0, 100)]);
        const smallSeconds = await throughServer(server.url, manifests);
        const others = new Map<string, Rates | null>();
        for (const [name, program] of PROGRAMS) others.set(name, ratesOf(files, await inTurn(program, urls)));
        const before = await memoryOf(server);
        const largeSeconds = await throughServer(server.url, [[`${origin.url}/large`]]);
        const memoryMb = Math.round(((await memoryOf(server)) - before) / MEGABYTE);
        const curl = ratesOf(megabytes, await inTurn(CURL, [`${origin.url}/large`]));
        const millrace = { small: Math.round(files / smallSeconds), large: Math.round(megabytes / largeSeconds) };
        return { files, megabytes, memoryMb, small: { millrace: millrace.small, others }, large: { millrace: millrace.large, curl } };
      } finally {
        await stop(server);
      }
    });
  } finally {
    await stop(origin);
  }
}
