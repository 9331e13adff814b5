import { setTimeout as delay } from 'node:timers/promises';
import { eventNames, judgeDeliveries } from './check.ts';
import type { DeliveryView, ReportRow } from './wire.ts';
import type { World } from './world.ts';

const EVERY_MS = 100;
/** Gives up after this time without a change. It is longer than any default delay between attempts. */
const PATIENCE_MS = 400_000;

type JobWithCallback = { readonly apiKey: string; readonly url: string; readonly row: ReportRow };

/** Waits until all notifications of a job are delivered or failed, and compares them with its work kind. */
export class DeliveryJudge {
  readonly #world: Pick<World, 'api' | 'receiver' | 'signal'>;
  readonly #patienceMs: number;
  readonly #ids = new Map<string, string>();

  constructor(world: Pick<World, 'api' | 'receiver' | 'signal'>, patienceMs = PATIENCE_MS) {
    this.#world = world;
    this.#patienceMs = patienceMs;
  }

  async judge({ apiKey, url, row }: JobWithCallback): Promise<string[]> {
    const deliveries = await this.#finalDeliveries({ apiKey, url, row });
    const { pathname, search } = new URL(url);
    const received = this.#world.receiver.received().filter(({ path }) => path === pathname + search);
    return judgeDeliveries({ row, deliveries, received });
  }

  async #finalDeliveries(job: JobWithCallback): Promise<readonly DeliveryView[]> {
    const { signal } = this.#world;
    const count = eventNames(job.row).length;
    let before = '';
    for (let newsMs = performance.now(); ; ) {
      const deliveries = await this.#look(job);
      const now = deliveries.map(({ state, attempts }) => `${state}${attempts.length}`).join();
      if (now !== before) newsMs = performance.now();
      before = now;
      const isOver = deliveries.length >= count && deliveries.every(({ ended_at }) => ended_at !== null);
      if (isOver || performance.now() - newsMs > this.#patienceMs) return deliveries;
      await delay(EVERY_MS, undefined, { signal });
    }
  }

  async #look({ apiKey, url }: JobWithCallback): Promise<readonly DeliveryView[]> {
    const { api } = this.#world;
    if (!this.#ids.has(url)) {
      for await (const callback of api.callbacks(apiKey)) this.#ids.set(callback.url, callback.webhook_id);
    }
    const id = this.#ids.get(url);
    return id === undefined ? [] : ((await api.deliveries(apiKey, id)).body.deliveries ?? []);
  }
}
