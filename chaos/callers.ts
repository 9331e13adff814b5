/** Clients that submit jobs over HTTP, each with a separate idempotency key. They repeat each request until it is acknowledged. */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

export type Answer = {
  /** 0 means no response: the connection was refused or closed. */
  readonly status: number;
  readonly hasRetryAfter: boolean;
  readonly tookMs: number;
  /** The time of the response, on the monotonic clock. */
  readonly atMs: number;
};

type Reply = Omit<Answer, 'tookMs' | 'atMs'> & { body: string };

const PAUSE_MS = 50;
const PATIENCE_MS = 30_000;

export class Callers {
  readonly answers: Answer[] = [];
  /** The ids that the server returned for a key. More than one means a duplicate job. */
  readonly acknowledged = new Map<string, Set<string>>();
  readonly #target: () => { url: string; key: string };
  readonly #callers: Promise<void>[];
  readonly #agent = new Agent({ keepAlive: true });
  readonly #name = randomUUID();
  #isStopping = false;
  #submitted = 0;

  constructor(target: () => { url: string; key: string }, count: number) {
    this.#target = target;
    this.#callers = Array.from({ length: count }, () => this.#call());
  }

  /** Resolves when this many more jobs have been acknowledged. */
  async untilAcknowledged(more: number): Promise<void> {
    const wanted = this.acknowledged.size + more;
    while (this.acknowledged.size < wanted) await delay(5);
  }

  /** Each caller continues until its last job is acknowledged. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#callers);
    this.#agent.destroy();
  }

  async #call(): Promise<void> {
    while (!this.#isStopping) {
      const key = `${this.#name}-${this.#submitted++}`;
      while (!(await this.#submit(key))) await delay(PAUSE_MS);
    }
  }

  async #submit(key: string): Promise<boolean> {
    const startedMs = performance.now();
    const { status, hasRetryAfter, body } = await this.#post(key);
    const atMs = performance.now();
    this.answers.push({ status, hasRetryAfter, tookMs: atMs - startedMs, atMs });
    if (status !== 202 && status !== 200) return false;
    const ids = this.acknowledged.get(key) ?? new Set();
    this.acknowledged.set(key, ids.add(JSON.parse(body).job_id));
    return true;
  }

  #post(key: string): Promise<Reply> {
    const { url, key: apiKey } = this.#target();
    const submission = {
      type: 'simulate',
      payload: { duration_ms: 5 },
      idempotency_key: key,
      max_attempts: 20,
      backoff: { initial_delay: '1ms', max_delay: '1ms' },
    };
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` };
    return new Promise((resolve) => {
      const none = () => resolve({ status: 0, hasRetryAfter: false, body: '' });
      const options = { agent: this.#agent, method: 'POST', headers, timeout: PATIENCE_MS };
      const sent = request(`${url}/queue/v1/jobs`, options, (answer) => {
        let body = '';
        answer.setEncoding('utf8').on('data', (text) => {
          body += text;
        });
        answer.on('error', none).on('end', () => {
          const hasRetryAfter = answer.headers['retry-after'] !== undefined;
          resolve({ status: answer.statusCode ?? 0, hasRetryAfter, body });
        });
      });
      sent.on('error', none).on('timeout', () => sent.destroy());
      sent.end(JSON.stringify(submission));
    });
  }
}
