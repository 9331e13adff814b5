import { setTimeout as delay } from 'node:timers/promises';
import type { WorkKind } from '../core/execution/kinds.ts';
import type { Received } from './webhook-receiver.ts';
import type { DeliveryView, ReportRow } from './wire.ts';
import type { World } from './world.ts';

/** How long a slow receiver takes. */
export const SLOW_MS = 300;

const EVERY_MS = 100;
/** Nothing has changed for so long: longer than any pause that a server makes unless it was told otherwise. */
const PATIENCE_MS = 400_000;

type Told = { readonly apiKey: string; readonly url: string; readonly row: ReportRow };

/** Waits until everything about a job was delivered or given up, and holds it against what its kind promises. */
export class DeliveryJudge {
  readonly #world: Pick<World, 'api' | 'receiver' | 'signal'>;
  readonly #patienceMs: number;
  /** The ids of callbacks by their addresses. */
  readonly #ids = new Map<string, string>();

  constructor(world: Pick<World, 'api' | 'receiver' | 'signal'>, patienceMs = PATIENCE_MS) {
    this.#world = world;
    this.#patienceMs = patienceMs;
  }

  async judge({ apiKey, url, row }: Told): Promise<string[]> {
    const deliveries = await this.#over({ apiKey, url, row });
    const { pathname, search } = new URL(url);
    const received = this.#world.receiver.received().filter(({ path }) => path === pathname + search);
    return judgeDeliveries({ row, deliveries, received });
  }

  async #over(told: Told): Promise<readonly DeliveryView[]> {
    const { signal } = this.#world;
    const count = eventNames(told.row).length;
    let before = '';
    for (let newsMs = performance.now(); ; ) {
      const deliveries = await this.#look(told);
      const now = deliveries.map(({ state, attempts }) => `${state}${attempts.length}`).join();
      if (now !== before) newsMs = performance.now();
      before = now;
      const isOver = deliveries.length >= count && deliveries.every(({ ended_at }) => ended_at !== null);
      if (isOver || performance.now() - newsMs > this.#patienceMs) return deliveries;
      await delay(EVERY_MS, undefined, { signal });
    }
  }

  async #look({ apiKey, url }: Told): Promise<readonly DeliveryView[]> {
    const { api } = this.#world;
    if (!this.#ids.has(url)) {
      for await (const callback of api.callbacks(apiKey)) this.#ids.set(callback.url, callback.webhook_id);
    }
    const id = this.#ids.get(url);
    return id === undefined ? [] : ((await api.deliveries(apiKey, id)).body.deliveries ?? []);
  }
}

export type DeliveryCase = {
  readonly row: ReportRow;
  readonly deliveries: readonly DeliveryView[];
  /** What arrived at the address of the job, in order. */
  readonly received: readonly Pick<Received, 'body' | 'messageId'>[];
};

/** Everything in which the notifications of a job differ from what its kind promises. */
export function judgeDeliveries({ row, deliveries, received }: DeliveryCase): string[] {
  const expected = eventNames(row);
  const named = deliveries.map(({ event }) => event);
  const problems =
    [...named].sort().join() === [...expected].sort().join()
      ? []
      : [`was to tell of ${expected.join(', ')} and told of ${named.join(', ') || 'nothing'}`];
  return [
    ...problems,
    ...deliveries.flatMap((delivery) => {
      const arrivals = received.filter(({ messageId }) => messageId === delivery.message_id).length;
      return checkEnding(row.work_kind, delivery, arrivals);
    }),
    ...checkArrivals({ row, deliveries, received }),
  ];
}

/** A job of the type EMIT_EVENT tells one thing more than its report. */
function eventNames({ events, type, state }: ReportRow): string[] {
  const names = events.map(({ event_name }) => event_name);
  return type === 'EMIT_EVENT' && state === 'SUCCEEDED' ? [...names, 'job.event_emitted'] : names;
}

/** Each event arrived, first of all in the order in which it happened, and under one id however often it was sent. */
function checkArrivals({ row, deliveries, received }: DeliveryCase): string[] {
  const events = received.map(({ body }) => JSON.parse(body).data as { event_id: string; event_name: string });
  const problems: string[] = [];
  const order = [...new Set(events.map(({ event_name }) => event_name))].join();
  const wanted = [...new Set(eventNames(row))].join();
  if (order !== wanted) problems.push(`its notifications arrived as ${order || 'nothing'}, expected ${wanted}`);
  const ids = new Set(events.map(({ event_id }) => event_id));
  if (row.events.some(({ event_id }) => !ids.has(event_id))) problems.push('an event of its report did not arrive');
  const messages = new Set(received.map(({ messageId }) => messageId));
  if (messages.size !== deliveries.length || deliveries.some(({ message_id }) => !messages.has(message_id)))
    problems.push(`${messages.size} messages arrived for ${deliveries.length} deliveries`);
  return problems;
}

type Attempts = DeliveryView['attempts'];
type Ending = { readonly state: DeliveryView['state']; isAsTold(attempts: Attempts): boolean };

/** How every delivery of such a job ends. An attempt that the server did not bring to its end may have used up the first answer. */
const ENDINGS: Partial<Record<WorkKind, Ending>> = {
  WEBHOOK_SUCCESS: { state: 'delivered', isAsTold: (attempts) => attempts.at(-1)?.status === 200 },
  WEBHOOK_TIMEOUT: {
    state: 'delivered',
    isAsTold: ([first, ...others]) =>
      others.length > 0 && (first?.error_code === 'TIMEOUT' || first?.verdict === 'interrupted'),
  },
  WEBHOOK_5XX: {
    state: 'delivered',
    isAsTold: (attempts) => attempts.length > 1 && attempts.slice(0, -1).every(({ status }) => status !== 200),
  },
  WEBHOOK_RETRIES_EXHAUSTED: {
    state: 'failed',
    isAsTold: (attempts) => attempts.length > 1 && attempts.every(({ status }) => status !== 200),
  },
  WEBHOOK_SLOW_RECEIVER: {
    state: 'delivered',
    isAsTold: (attempts) => (attempts.at(-1)?.duration_ms ?? 0) >= SLOW_MS,
  },
};

function checkEnding(kind: WorkKind | null, delivery: DeliveryView, arrivals: number): string[] {
  const { event, state, attempts } = delivery;
  const ending = kind === null ? undefined : ENDINGS[kind];
  if (ending === undefined) return [];
  const story = attempts.map(({ status, error_code, duration_ms }) => `${status ?? error_code} in ${duration_ms} ms`);
  const told = `after ${story.join(', ') || 'no attempt'}`;
  if (state !== ending.state) return [`its ${event} is ${state} ${told}, expected ${ending.state}`];
  if (arrivals > attempts.length) return [`its ${event} arrived ${arrivals} times, is ${state} ${told}`];
  return ending.isAsTold(attempts) ? [] : [`its ${event} is ${state} ${told}, which is not what ${kind} shows`];
}
