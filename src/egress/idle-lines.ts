import type { TargetUrl } from '../core/target-url.ts';
import { closeLine, type Line } from './exchange.ts';
import type { ProxyAddress } from './proxy.ts';

const MAX_IDLE = 512;
const MAX_IDLE_PER_KEY = 128;
/** A connection is not used for longer than this, so that changes of the DNS take effect. */
const MAX_AGE_MS = 60_000;

/**
 * Connections that wait for another request to the same origin through the same proxy. Each was dialled to an address that passed the
 * address policy, and stays connected to it, so that a changed DNS record cannot lead it elsewhere.
 */
export class IdleLines {
  /** In the order of their last use. A key whose list is empty is removed. */
  readonly #lines = new Map<string, Line[]>();
  readonly #watched = new WeakSet<Line>();
  #count = 0;

  /** The connection that was used last, because it is the least likely to have been closed. */
  take(key: string): Line | null {
    for (;;) {
      const line = this.#lines.get(key)?.at(-1);
      if (line === undefined) return null;
      this.#remove(key, line);
      if (!line.socket.destroyed && performance.now() - line.openedMs < MAX_AGE_MS) {
        line.socket.ref();
        return line;
      }
      closeLine(line);
    }
  }

  keep(key: string, line: Line): void {
    if (line.socket.destroyed || line.client.destroyed) return;
    const lines = this.#lines.get(key) ?? [];
    lines.push(line);
    // The key moves to the end, so that the first key is the one that was used longest ago.
    this.#lines.delete(key);
    this.#lines.set(key, lines);
    this.#count++;
    line.socket.unref();
    this.#watch(key, line);
    if (lines.length > MAX_IDLE_PER_KEY) this.#evict(key);
    else if (this.#count > MAX_IDLE) this.#evict(this.#lines.keys().next().value as string);
  }

  /** Once for each connection, however often it is kept. */
  #watch(key: string, line: Line): void {
    if (this.#watched.has(line)) return;
    this.#watched.add(line);
    line.socket.once('close', () => this.#remove(key, line));
  }

  closeAll(): void {
    for (const [key, lines] of this.#lines) for (const line of [...lines]) this.#close(key, line);
  }

  #evict(key: string): void {
    const oldest = this.#lines.get(key)?.[0];
    if (oldest !== undefined) this.#close(key, oldest);
  }

  #close(key: string, line: Line): void {
    this.#remove(key, line);
    closeLine(line);
  }

  #remove(key: string, line: Line): void {
    const lines = this.#lines.get(key);
    const index = lines?.lastIndexOf(line) ?? -1;
    if (lines === undefined || index === -1) return;
    lines.splice(index, 1);
    this.#count--;
    if (lines.length === 0) this.#lines.delete(key);
  }
}

/** Two requests share connections only if origin, proxy and credentials are the same. */
export function lineKey(target: TargetUrl, proxy: ProxyAddress | null): string {
  if (proxy === null) return target.url.origin;
  return JSON.stringify([target.url.origin, proxy.kind, proxy.host, proxy.port, proxy.username, proxy.password]);
}
