// node bench/http.ts [--quick] [--raw] [--profile FOLDER]: submits single jobs through both HTTP APIs, and compares each with a Fastify
// handler that only parses the same body and responds. Servers and callers are separate processes. The servers take turns, so that all
// run under the same conditions.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import type { Answered, Client, Load } from './http-load.ts';
import type { Serving } from './http-server.ts';
import { openScratch } from './scratch-database.ts';
import { median } from './workload.ts';

/** The least share of the rate of an empty handler. */
export const BARE_SHARE = 0.5;

export type HttpShare = {
  /** Of the door. */
  path: string;
  /** Requests a second. */
  millrace: number;
  other: number;
  /** The rate of Millrace as a share of the rate of the other server. The median over all turns. */
  share: number;
  /** The share of each turn. If they differ much, the machine was busy with other work. */
  shares: readonly number[];
};

/** `failed` rejects when the process ends while it is needed. */
export type Process = { child: ChildProcess; failed: Promise<never> };
export type Server = Serving & Process;
/** A server to compare with. It reports its port as `http-server.ts` does. */
type Other = { script: string; args: readonly string[] };
type Options = { quick: boolean; client?: Client; profileFolder?: string; other?: Other };
type Door = { kind: 'queue' | 'execution'; path: string; body: string };
type Parts = { caller: Process; other: Server; fresh(name: string): Promise<string>; options: Options };
type How = Pick<Load, 'client' | 'forMs'>;

const CONNECTIONS = 64;
const WARM_UP_TURNS = 3;
const SERVER = './http-server.ts';
const BARE: Other = { script: SERVER, args: ['bare'] };
const DOORS: readonly Door[] = [
  {
    kind: 'queue',
    path: '/queue/v1/jobs',
    body: JSON.stringify({
      type: 'noop',
      payload: { i: 1, to: 'someone@example.com', template: 'welcome', at: 1_700_000_000_000 },
    }),
  },
  { kind: 'execution', path: '/v1/jobs', body: JSON.stringify({ type: 'EXECUTE', work_kind: 'SUCCESS_FAST' }) },
];

/** Returns one row for each API. `fresh` creates an empty database. Throws if a response is wrong or a job is missing. */
export async function httpShares(fresh: (name: string) => Promise<string>, options: Options): Promise<HttpShare[]> {
  const { script, args } = options.other ?? BARE;
  const other = await startServer(script, args);
  const caller = start('./http-load.ts', []);
  try {
    const shares: HttpShare[] = [];
    // One after the other: among the turns of two others, idle for three of four seconds, the queue's door had 57 % instead of 66 to 69.
    for (const door of DOORS) shares.push(await shareOf(door, { caller, other, fresh, options }));
    return shares;
  } finally {
    await Promise.all([caller, other].map(stop));
  }
}

async function shareOf(door: Door, { caller, other, fresh, options }: Parts): Promise<HttpShare> {
  const { quick, client = 'agent', profileFolder } = options;
  const url = await fresh(`http_${door.kind}`);
  const server = await startServer(SERVER, [door.kind, url], profileFolder);
  const turns: Turn[] = [];
  try {
    const how = { client, forMs: quick ? 500 : 2_000 };
    for (let turn = 0; turn < WARM_UP_TURNS + (quick ? 8 : 15); turn++) {
      turns.push(await takeTurn(door, { caller, other, server, how }));
    }
  } finally {
    await stop(server);
  }
  await requireJobs(url, sum(turns.map(({ millrace }) => millrace.answered)));
  const warm = turns.slice(WARM_UP_TURNS);
  const shares = warm.map(({ other, millrace }) => millrace.perSecond / other.perSecond);
  const rate = (name: keyof Turn) => Math.round(median(warm.map((turn) => turn[name].perSecond)));
  return { path: door.path, other: rate('other'), millrace: rate('millrace'), share: median(shares), shares };
}

type Turn = { other: Answered; millrace: Answered };

/** Measures the other server and the API in direct succession, under the same conditions. Both get the same bytes. */
async function takeTurn(
  door: Door,
  { caller, other, server, how }: { caller: Process; other: Server; server: Server; how: How },
): Promise<Turn> {
  const load = { ...how, key: server.key, path: door.path, body: door.body };
  const turn = { other: await drive(caller, other, load), millrace: await drive(caller, server, load) };
  const refused = turn.other.refused + turn.millrace.refused;
  if (refused > 0) throw new Error(`${refused} requests to ${door.path} were refused`);
  return turn;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

export function start(script: string, args: readonly string[], execArgv: readonly string[] = []): Process {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const child = fork(file, args, { execArgv: [...execArgv], stdio: 'inherit' });
  const failed = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`a process of the bench ended with ${signal ?? code}: ${child.spawnargs.join(' ')}`);
  });
  // The process may end normally while no caller waits for this promise.
  failed.catch(() => {});
  return { child, failed };
}

export async function startServer(script: string, args: readonly string[], profileFolder?: string): Promise<Server> {
  const execArgv = profileFolder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`];
  const started = start(script, args, execArgv);
  const [serving] = (await Promise.race([once(started.child, 'message'), started.failed])) as [Serving];
  return { ...serving, ...started };
}

export async function stop({ child }: Process): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = once(child, 'exit');
  if (child.connected) child.disconnect();
  await gone;
}

export async function drive(caller: Process, server: Server, how: Omit<Load, 'port' | 'connections'>): Promise<Answered> {
  caller.child.send({ ...how, port: server.port, connections: CONNECTIONS } satisfies Load);
  const ends = [once(caller.child, 'message'), server.failed, caller.failed];
  const [answered] = (await Promise.race(ends)) as [Answered];
  return answered;
}

/** Every accepted job is durable when the response is sent, so each must have a row. */
async function requireJobs(url: string, acknowledged: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query('SELECT count(*)::int4 AS jobs FROM millrace.jobs').finally(() => client.end());
  if (rows[0].jobs !== acknowledged) throw new Error(`${acknowledged} answers stand for ${rows[0].jobs} jobs`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, raw: { type: 'boolean' }, profile: { type: 'string' } },
  });
  const client = values.raw ? 'raw' : 'agent';
  const scratch = await openScratch();
  try {
    const options = { quick: values.quick, client, profileFolder: values.profile } as const;
    const measured = await httpShares((name) => scratch.fresh(name), options);
    const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
    for (const { path, shares } of measured) console.error(`${path} turn by turn: ${shares.map(percent).join(', ')}`);
    console.table(
      measured.map(({ path, other, millrace, share }) => ({
        path,
        client,
        bare: `${other}/s`,
        millrace: `${millrace}/s`,
        share: percent(share),
        threshold: `>= ${percent(BARE_SHARE)}`,
      })),
    );
    process.exitCode = measured.every(({ share }) => share >= BARE_SHARE) ? 0 : 1;
  } finally {
    await scratch.close();
  }
}
