import type { Engine } from '../engine/engine.ts';
import { checkReadiness, NO_WORKER } from '../services/admission/check-readiness.ts';
import type { Log } from '../telemetry/log.ts';
import { JSON_ONLY, type Notices } from './notices.ts';

const CHECK_EVERY_MS = 5_000;

/** Logs when no worker is alive, and when one is alive again. The server accepts jobs meanwhile, so its readiness does not show it. */
export class MissingWorkers {
  readonly #engine: Engine;
  readonly #out: Notices;
  readonly #log: Log;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #isTold = false;

  constructor(engine: Engine, { out, log }: { out: Notices; log: Log }) {
    this.#engine = engine;
    this.#out = out;
    this.#log = log;
  }

  start(): void {
    void this.#check();
  }

  async #check(): Promise<void> {
    const { workers, warnings } = await checkReadiness(this.#engine);
    if (this.#isStopped) return;
    const missing = warnings.find(({ code }) => code === NO_WORKER);
    if (missing !== undefined) this.#tell(missing.message);
    else if (this.#isTold && workers !== null) this.#revoke(workers);
    this.#timer = setTimeout(() => this.start(), CHECK_EVERY_MS).unref();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #tell(message: string): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#out.event({ event: 'workers_missing', code: NO_WORKER, message }, JSON_ONLY);
    this.#log.warn('workers.missing', { error_code: NO_WORKER, reason: `${message} Start one with "millrace work".` });
  }

  #revoke(workers: number): void {
    this.#isTold = false;
    this.#out.event({ event: 'workers_back', workers }, JSON_ONLY);
    this.#log.warn('workers.back', { workers });
  }
}
