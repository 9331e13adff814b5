// node chaos/generated-requests.ts [--requests 100000] [--at-once 16] [--seed 1]: starts a server and sends it requests that are made from its OpenAPI
// document, with names, sizes and encodings that a server may trip over. Fails if an answer is a 5xx or not documented, if /healthz gets slow, or if
// memory grows.
import { Agent } from 'node:http';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { openScratch } from '../bench/scratch-database.ts';
import { requestsOf } from '../test/hostile/requests.ts';
import { sendGenerated } from '../test/hostile/send-generated.ts';
import { Contract, type OpenApi } from '../test/http/contract.ts';
import { HealthProbe } from './health-probe.ts';
import { residentMb } from './memory-watch.ts';
import { Program } from './program.ts';

const MOST_HEALTH_P99_MS = 50;
const MOST_GROWTH_MB = 64;
const WARM_UP = 0.05;
const RENEW_AFTER = 15;
const SHOWN_FINDINGS = 20;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    'at-once': { type: 'string', default: '16' },
    seed: { type: 'string', default: '1' },
  },
});
const total = Number(values.requests);
const atOnce = Number(values['at-once']);

type Client = { clientId: string; key: string; jobId: string; webhookId: string };

async function call<T>(method: string, url: string, key?: string, body?: object): Promise<T> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (key !== undefined) headers.authorization = `Bearer ${key}`;
  const answer = await fetch(url, { method, headers, body: JSON.stringify(body ?? {}) });
  if (!answer.ok) throw new Error(`${method} ${url} was answered with ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** A stranger who registers himself, submits a job and registers a webhook. */
async function register(url: string): Promise<Client> {
  const { client_id: clientId } = await call<{ client_id: string }>('POST', `${url}/v1/clients`);
  const { api_key: key } = await call<{ api_key: string }>('POST', `${url}/v1/clients/${clientId}/keys`);
  const { job_id: jobId } = await call<{ job_id: string }>('POST', `${url}/v1/jobs`, key, { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' });
  const webhook = { url: 'https://public.example/', events: ['*'] };
  const { webhook_id: webhookId } = await call<{ webhook_id: string }>('POST', `${url}/v1/webhooks`, key, webhook);
  return { clientId, key, jobId, webhookId };
}

const scratch = await openScratch();
const program = new Program(await scratch.fresh('generated'), { MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: '1000000' });
await program.start();
const pid = program.pid as number;
const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
try {
  const document = (await (await fetch(`${program.url}/openapi.json`)).json()) as OpenApi;
  const contract = new Contract(document);
  const { job_id: own } = await call<{ job_id: string }>('POST', `${program.url}/queue/v1/jobs`, program.key, {
    type: 'simulate',
    payload: {},
  });
  // Anew from time to time, because some requests revoke the keys that they go with.
  const requestsOfStrangers = async () => {
    const clients = [await register(program.url), await register(program.url)];
    const jobs = [own, ...clients.map(({ jobId }) => jobId)];
    const ids = {
      id: jobs,
      job_id: jobs,
      client_id: clients.map(({ clientId }) => clientId),
      webhook_id: clients.map((each) => each.webhookId),
    };
    const keys = clients.map(({ key }) => key);
    return requestsOf(document, { keysAt: (path) => (path.startsWith('/queue') ? [program.key, ...keys] : keys), ids });
  };
  let requests = await requestsOfStrangers();
  const counts = new Map<string, number>();
  const findings: string[] = [];
  let sent = 0;
  let baseMb = residentMb(pid);
  let peakMb = baseMb;
  const probe = new HealthProbe(program.url);
  const beganMs = performance.now();
  while (sent < total) {
    if (sent % (RENEW_AFTER * atOnce) === 0) requests = await requestsOfStrangers();
    const some = fc.sample(requests, { numRuns: atOnce, seed: Number(values.seed) + sent });
    const outcomes = await Promise.all(some.map((each) => sendGenerated(program.url, agent, each, contract)));
    for (const { status, finding } of outcomes) {
      counts.set(String(status), (counts.get(String(status)) ?? 0) + 1);
      if (finding !== null) findings.push(finding);
    }
    if (sent < total * WARM_UP && sent + atOnce >= total * WARM_UP) baseMb = peakMb = residentMb(pid);
    sent += atOnce;
    peakMb = Math.max(peakMb, residentMb(pid));
    if (Math.floor(sent / 5_000) > Math.floor((sent - atOnce) / 5_000)) {
      const seconds = ((performance.now() - beganMs) / 1_000).toFixed(0);
      console.log(`${sent} requests in ${seconds} s, ${findings.length} findings, ${residentMb(pid).toFixed(0)} MB`);
    }
  }
  const { probes, failed, p50Ms, p99Ms, longestMs } = await probe.stop();
  const endMb = residentMb(pid);
  console.table(Object.fromEntries([...counts].sort()));
  for (const finding of findings.slice(0, SHOWN_FINDINGS)) console.log(finding);
  console.log(`${findings.length} findings in ${sent} requests; the program ended ${program.exits} times`);
  console.log(
    `/healthz: ${probes} probes, ${failed} failed, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms, longest ${longestMs.toFixed(0)} ms`,
  );
  console.log(
    `memory: ${baseMb.toFixed(0)} MB after the first ${WARM_UP * 100} %, ${endMb.toFixed(0)} MB at the end, peak ${peakMb.toFixed(0)} MB`,
  );
  const isGood =
    findings.length === 0 && program.exits === 0 && failed === 0 && p99Ms <= MOST_HEALTH_P99_MS && endMb - baseMb <= MOST_GROWTH_MB;
  process.exitCode = isGood ? 0 : 1;
} finally {
  agent.destroy();
  await program.kill();
  await scratch.close();
}
