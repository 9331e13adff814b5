// node bench/http.ts [--quick] [--raw] [--profile FOLDER]: single jobs over HTTP, beside a Fastify handler that only parses the same body
// and answers. Each server is a process, the callers another one; the two take turns, so that both meet the same machine.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import type { Answered, Client, Load } from './http-load.ts';
import type { Serving } from './http-server.ts';
import { openScratch } from './scratch-database.ts';

export type HttpShare = {
  /** Requests a second. */
  millrace: number;
  bare: number;
  /** Of the bare handler's requests, how many Millrace answers: the median over turns. */
  share: number;
  /** Turn by turn; far apart, they say that the machine was busy with something else. */
  shares: readonly number[];
};

/** `failed` rejects when the process ends while it is needed. */
type Process = { child: ChildProcess; failed: Promise<never> };
type Server = Serving & Process;
type Options = { quick: boolean; client?: Client; profileFolder?: string };

const CONNECTIONS = 64;
const WARM_UP_TURNS = 3;
const BODY = JSON.stringify({
  type: 'noop',
  payload: { i: 1, to: 'someone@example.com', template: 'welcome', at: 1_700_000_000_000 },
});

/** Needs an empty database. Throws when an answer was not as it should be or a job is missing. */
export async function httpShare(url: string, options: Options): Promise<HttpShare> {
  const { quick, client = 'agent', profileFolder } = options;
  const servers = {
    bare: await startServer(['bare']),
    millrace: await startServer(['millrace', url], profileFolder),
  };
  // Both get the same bytes.
  const { key } = servers.millrace;
  const caller = start('./http-load.ts', []);
  try {
    const rates = { bare: [] as number[], millrace: [] as number[] };
    const forMs = quick ? 500 : 1_000;
    let acknowledged = 0;
    for (let turn = 0; turn < WARM_UP_TURNS + (quick ? 12 : 30); turn++) {
      for (const name of ['bare', 'millrace'] as const) {
        const { answered, refused, perSecond } = await drive(caller, servers[name], { client, forMs, key });
        if (refused > 0) throw new Error(`${name} refused ${refused} of ${answered + refused} requests`);
        if (name === 'millrace') acknowledged += answered;
        if (turn >= WARM_UP_TURNS) rates[name].push(perSecond);
      }
    }
    await requireJobs(url, acknowledged);
    // Turn by turn: neighbours in time met the same machine.
    const shares = rates.bare.map((bare, turn) => (rates.millrace[turn] ?? 0) / bare);
    const [bare, millrace] = [rates.bare, rates.millrace].map((each) => Math.round(median(each))) as [number, number];
    return { bare, millrace, share: median(shares), shares };
  } finally {
    await Promise.all([caller, servers.bare, servers.millrace].map(stop));
  }
}

function start(script: string, args: readonly string[], execArgv: readonly string[] = []): Process {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const child = fork(file, args, { execArgv: [...execArgv], stdio: 'inherit' });
  const failed = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`a process of the bench ended with ${signal ?? code}: ${child.spawnargs.join(' ')}`);
  });
  // Nobody may be waiting for it when it ends as it should.
  failed.catch(() => {});
  return { child, failed };
}

async function startServer(args: readonly string[], profileFolder?: string): Promise<Server> {
  const execArgv = profileFolder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`];
  const started = start('./http-server.ts', args, execArgv);
  const [serving] = (await Promise.race([once(started.child, 'message'), started.failed])) as [Serving];
  return { ...serving, ...started };
}

async function stop({ child }: Process): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = once(child, 'exit');
  if (child.connected) child.disconnect();
  await gone;
}

async function drive(caller: Process, server: Server, how: Pick<Load, 'client' | 'forMs' | 'key'>): Promise<Answered> {
  const { port } = server;
  const load = { ...how, port, path: '/queue/v1/jobs', body: BODY, connections: CONNECTIONS } satisfies Load;
  caller.child.send(load);
  const ends = [once(caller.child, 'message'), server.failed, caller.failed];
  const [answered] = (await Promise.race(ends)) as [Answered];
  return answered;
}

/** Durable at the answer: each one stands for a row. */
async function requireJobs(url: string, acknowledged: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query('SELECT count(*)::int4 AS jobs FROM millrace.jobs').finally(() => client.end());
  if (rows[0].jobs !== acknowledged) throw new Error(`${acknowledged} answers stand for ${rows[0].jobs} jobs`);
}

/** Between the two in the middle when their number is even. */
function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, raw: { type: 'boolean' }, profile: { type: 'string' } },
  });
  const client = values.raw ? 'raw' : 'agent';
  const scratch = await openScratch();
  try {
    const url = await scratch.fresh('http');
    const measured = await httpShare(url, { quick: values.quick, client, profileFolder: values.profile });
    const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
    const share = percent(measured.share);
    console.error(`shares turn by turn: ${measured.shares.map(percent).join(', ')}`);
    console.table([{ client, bare: `${measured.bare}/s`, millrace: `${measured.millrace}/s`, share, bar: '>= 60 %' }]);
    process.exitCode = measured.share >= 0.6 ? 0 : 1;
  } finally {
    await scratch.close();
  }
}
