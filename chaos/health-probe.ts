/** A thread of its own that asks for /healthz again and again, so that the caller's own work does not count. */
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

export type Probed = { probes: number; failed: number; p50Ms: number; p99Ms: number; longestMs: number };

const EVERY_MS = 20;

export class HealthProbe {
  readonly #thread: Worker;

  constructor(url: string) {
    this.#thread = new Worker(new URL(import.meta.url), { workerData: { url } });
  }

  async stop(): Promise<Probed> {
    const answered = once(this.#thread, 'message');
    this.#thread.postMessage('stop');
    const [probed] = (await answered) as [Probed];
    await this.#thread.terminate();
    return probed;
  }
}

async function probeUntilStopped(url: string): Promise<Probed> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const tookMs: number[] = [];
  let failed = 0;
  let isStopped = false;
  parentPort?.once('message', () => {
    isStopped = true;
  });
  while (!isStopped) {
    const beganMs = performance.now();
    const status = await statusOf(url, agent).catch(() => 0);
    tookMs.push(performance.now() - beganMs);
    if (status !== 200) failed++;
    await sleep(EVERY_MS);
  }
  agent.destroy();
  tookMs.sort((one, other) => one - other);
  const at = (share: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * share))] ?? Number.NaN;
  return { probes: tookMs.length, failed, p50Ms: at(0.5), p99Ms: at(0.99), longestMs: at(1) };
}

const statusOf = (url: string, agent: Agent): Promise<number> =>
  new Promise((resolve, reject) => {
    get(`${url}/healthz`, { agent }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    }).on('error', reject);
  });

if (!isMainThread) parentPort?.postMessage(await probeUntilStopped((workerData as { url: string }).url));
