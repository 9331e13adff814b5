/** Orders that fail as their payload says, and jobs that died of it. */
import { PermanentError, TemporaryError } from '../../src/core/failure.ts';
import type { Registration } from '../../src/engine/work/registry.ts';
import { until } from '../until.ts';
import type { Caller } from './queue-fixture.ts';

type Order = { error?: string; code?: string; permanent?: boolean; [more: string]: unknown };

/** Orders whose cause is gone. They complete, whatever their payload says. */
export const healed = new Set<string>();

export const ORDER: Registration = {
  type: 'order',
  handler: (_context, payload) => {
    const { error, code = 'PROVIDER_DOWN', permanent = false } = payload as Order;
    if (error === undefined || healed.has(error)) return 'shipped';
    if (permanent) throw new PermanentError(error, { code });
    throw new TemporaryError(error, { code });
  },
};

/** Submits an order that dies of this error, and waits until it has. */
export async function deadOrder(caller: Caller, payload: Order, submission: object = {}): Promise<string> {
  const id = await caller.submit({ type: 'order', payload, max_attempts: 1, ...submission });
  await caller.reached(id, 'DEAD_LETTER');
  return id;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export type Body = any;

export async function create(caller: Caller, body: object): Promise<Body> {
  const created = await caller.post('/operations', body);
  if (created.status !== 202) throw new Error(`${created.status} ${JSON.stringify(created.body)}`);
  return created.body;
}

export async function reached(caller: Caller, id: string, ...states: string[]): Promise<Body> {
  const read = async () => (await caller.get(`/operations/${id}`)).body;
  await until(`the operation is ${states.join(' or ')}`, read, ({ state }) => states.includes(state));
  return read();
}

export async function finished(caller: Caller, id: string): Promise<Body> {
  const read = async () => (await caller.get(`/operations/${id}`)).body;
  await until('the operation has finished', read, ({ finished_at }) => finished_at !== null);
  return read();
}

export const itemsOf = async (caller: Caller, id: string, query: Record<string, string> = {}): Promise<Body[]> =>
  (await caller.get(`/operations/${id}/items`, query)).body.items;

export async function deadOrders(caller: Caller, count: number, error: string, payload: object = {}): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => deadOrder(caller, { error, n, ...payload })));
}
