import type { Engine } from '../engine/engine.ts';
import { checkReadiness, NO_WORKER } from '../services/admission/check-readiness.ts';
import type { Notices } from './notices.ts';

const CHECK_EVERY_MS = 5_000;

/** Prints when no worker is alive, and when one is alive again. The server accepts jobs meanwhile, so its readiness does not show it. */
export class MissingWorkers {
  readonly #engine: Engine;
  readonly #out: Notices;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #isTold = false;

  constructor(engine: Engine, out: Notices) {
    this.#engine = engine;
    this.#out = out;
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
    this.#out.event({ event: 'workers_missing', code: NO_WORKER, message }, `${message} Start one with "millrace work".`);
  }

  #revoke(workers: number): void {
    this.#isTold = false;
    this.#out.event({ event: 'workers_back', workers }, `${workers === 1 ? 'A worker is' : `${workers} workers are`} alive again.`);
  }
}
