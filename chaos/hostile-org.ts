// node chaos/hostile-org.ts [--seconds 120]: starts the server as `npm start` does, with default settings. A hostile org with 20 clients that registered
// themselves attacks it in every way at once, while another org submits jobs through both doors. Fails if one of its submissions is refused, if its jobs
// do not start within two seconds at p99, or if /healthz fails.
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { HealthProbe } from './health-probe.ts';
import { ATTACKS, type Attack, type Battlefield, type Stranger } from './hostile-attacks.ts';
import { residentMb } from './memory-watch.ts';
import { Program } from './program.ts';

const CLIENTS = 20;
const HOSTILE_ADDRESS = '127.0.0.2';
const HONEST_ADDRESS = '127.0.0.3';
/** Below the default limit of requests per minute. */
const SUBMIT_EVERY_MS = 400;
const MOST_START_P99_MS = 2_000;

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '120' } } });
const lastsMs = Number(values.seconds) * 1_000;

type Answer = { status: number; body: Record<string, unknown> };

const agent = new Agent({ keepAlive: true });

function call(url: string, options: { from: string; method?: string; key?: string; body?: object }): Promise<Answer> {
  const { from, method = 'POST', key, body } = options;
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (key !== undefined) headers.authorization = `Bearer ${key}`;
    const sent = request(url, { agent, method, localAddress: from, headers }, (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part)).on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: JSON.parse(Buffer.concat(parts).toString()) }));
    });
    sent.on('error', reject).end(method === 'GET' ? undefined : JSON.stringify(body ?? {}));
  });
}

async function register(url: string, from: string): Promise<Stranger> {
  const { body: client } = await call(`${url}/v1/clients`, { from });
  const clientId = String(client.client_id);
  const { status, body } = await call(`${url}/v1/clients/${clientId}/keys`, { from });
  if (status !== 201) throw new Error(`a client could not register: ${status} ${JSON.stringify(body)}`);
  return { clientId, key: String(body.api_key) };
}

/** Repeats an attack, with one client after the other, until the run is over. */
async function wage(attack: Attack, field: Battlefield, strangers: readonly Stranger[]): Promise<void> {
  let next = 0;
  const fight = async () => {
    while (!field.signal.aborted) await attack.round(field, strangers[next++ % strangers.length] as Stranger).catch(() => sleep(50));
  };
  await Promise.all(Array.from({ length: attack.atOnce }, fight));
}

type Submitted = { door: 'queue' | 'execution'; id: string };
type Honest = { submitted: Submitted[]; refused: string[]; tookMs: number[] };

/** Submits a job through each door again and again. */
async function submitHonestly(url: string, keys: Record<Submitted['door'], string>, signal: AbortSignal): Promise<Honest> {
  const honest: Honest = { submitted: [], refused: [], tookMs: [] };
  const bodies = { queue: { type: 'simulate', payload: { duration_ms: 5 } }, execution: { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' } };
  const paths = { queue: '/queue/v1/jobs', execution: '/v1/jobs' };
  const submit = async (door: Submitted['door']) => {
    const beganMs = performance.now();
    try {
      const { status, body } = await call(url + paths[door], { from: HONEST_ADDRESS, key: keys[door], body: bodies[door] });
      honest.tookMs.push(performance.now() - beganMs);
      if (status === 202) honest.submitted.push({ door, id: String(body.job_id) });
      else honest.refused.push(`${door}: ${status} ${JSON.stringify(body).slice(0, 300)}`);
    } catch (error) {
      honest.refused.push(`${door}: ${(error as Error).message}`);
    }
  };
  while (!signal.aborted) {
    await Promise.all([submit('queue'), submit('execution'), sleep(SUBMIT_EVERY_MS)]);
  }
  return honest;
}

const PATIENCE_MS = 90_000;

/** How long each job waited for its first start. A job that has still not started after the patience counts as one that never does. */
async function waitsOf(url: string, keys: Record<Submitted['door'], string>, submitted: readonly Submitted[]): Promise<number[]> {
  const waits: number[] = [];
  const untilMs = performance.now() + PATIENCE_MS;
  for (const { door, id } of submitted) {
    const path = door === 'queue' ? `/queue/v1/jobs/${id}` : `/v1/jobs/${id}`;
    let { body } = await call(url + path, { from: HONEST_ADDRESS, method: 'GET', key: keys[door] });
    // Also while the limit of requests per minute refuses to say it.
    while (typeof body.started_at !== 'string' && performance.now() < untilMs) {
      await sleep(500);
      ({ body } = await call(url + path, { from: HONEST_ADDRESS, method: 'GET', key: keys[door] }));
    }
    const started = typeof body.started_at === 'string' ? Date.parse(body.started_at) : Number.POSITIVE_INFINITY;
    waits.push(started - Date.parse(String(body.created_at)));
  }
  return waits;
}

const at = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
};

const home = join(tmpdir(), `millrace-hostile-${randomUUID().slice(0, 8)}`);
const program = new Program('', { MILLRACE_HOME: home }, {});
await program.start();
const { url } = program;
try {
  const honestClient = await register(url, HONEST_ADDRESS);
  const keys = { queue: program.key, execution: honestClient.key };
  const strangers: Stranger[] = [];
  for (let client = 0; client < CLIENTS; client++) strangers.push(await register(url, HOSTILE_ADDRESS));
  const counts = new Map<string, Map<number, number>>();
  const over = AbortSignal.timeout(lastsMs);
  const beganMb = residentMb(program.pid as number);
  const probe = new HealthProbe(url);
  const fights = ATTACKS.map((attack) => {
    const seen = new Map<number, number>();
    counts.set(attack.what, seen);
    const count = (status: number) => seen.set(status, (seen.get(status) ?? 0) + 1);
    return wage(attack, { url, from: HOSTILE_ADDRESS, signal: over, count }, strangers);
  });
  const progress = setInterval(() => console.log(`${residentMb(program.pid as number).toFixed(0)} MB`), 10_000);
  const honest = await submitHonestly(url, keys, over);
  clearInterval(progress);
  await Promise.all(fights);
  const health = await probe.stop();
  const endedMb = residentMb(program.pid as number);
  const waits = await waitsOf(url, keys, honest.submitted);
  for (const [what, seen] of counts) console.log(`${what}: ${[...seen].map(([status, times]) => `${times} x ${status}`).join(', ')}`);
  for (const refusal of honest.refused.slice(0, 10)) console.log(`refused: ${refusal}`);
  const [p50, p99] = [at(waits, 0.5), at(waits, 0.99)];
  console.log(`the other org: ${honest.submitted.length} submissions accepted, ${honest.refused.length} refused`);
  console.log(`  answered after p50 ${at(honest.tookMs, 0.5).toFixed(0)} ms, p99 ${at(honest.tookMs, 0.99).toFixed(0)} ms`);
  console.log(`  started after p50 ${p50} ms, p99 ${p99} ms, longest ${Math.max(...waits)} ms`);
  console.log(
    `/healthz: ${health.probes} probes, ${health.failed} failed, p99 ${health.p99Ms.toFixed(0)} ms, longest ${health.longestMs.toFixed(0)} ms`,
  );
  console.log(`memory: ${beganMb.toFixed(0)} MB before, ${endedMb.toFixed(0)} MB after; the program ended ${program.exits} times`);
  const isGood =
    honest.refused.length === 0 && honest.submitted.length > 0 && p99 <= MOST_START_P99_MS && health.failed === 0 && program.exits === 0;
  process.exitCode = isGood ? 0 : 1;
} finally {
  agent.destroy();
  await program.stop();
  rmSync(home, { recursive: true, force: true });
}
process.exit();
