import type { Queryable } from './statement.ts';

/** What clients of node-postgres offer. `getTransactionStatus` exists since version 8.17. */
type ObservableClient = {
  on?(event: 'drain' | 'end', listener: () => void): unknown;
  off?(event: 'drain' | 'end', listener: () => void): unknown;
  getTransactionStatus?(): string | null;
};

const IDLE = 'I';
/** When to act for a client that cannot be observed. */
const GUESSES_MS = [10, 50, 250];

const waiting = new WeakMap<object, (() => void)[]>();

/**
 * Calls `then` when the open transaction of the client has ended, whether it was committed or rolled back. If the connection is lost, `then`
 * is not called. A client of another kind cannot be observed: `then` is called some moments later, more than once.
 */
export function onTransactionEnd(client: Queryable, then: () => void): void {
  const observed = client as ObservableClient;
  if (observed.on === undefined || observed.off === undefined || observed.getTransactionStatus === undefined) {
    for (const delayMs of GUESSES_MS) setTimeout(then, delayMs).unref();
    return;
  }
  const callbacks = waiting.get(client);
  if (callbacks === undefined) observe(client, observed as Required<ObservableClient>, then);
  else callbacks.push(then);
}

/** One listener for all callbacks of a transaction. */
function observe(key: Queryable, client: Required<ObservableClient>, then: () => void): void {
  const callbacks = [then];
  waiting.set(key, callbacks);
  const forget = () => {
    waiting.delete(key);
    client.off('drain', onDrain);
    client.off('end', forget);
  };
  const onDrain = () => {
    if (client.getTransactionStatus() !== IDLE) return;
    forget();
    for (const callback of callbacks) callback();
  };
  client.on('drain', onDrain);
  client.on('end', forget);
}
