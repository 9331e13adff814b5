import { PAUSES, pauseMs } from '../core/backoff.ts';
import type { PoolRoutes, ProxyAddress, ProxyPools, ProxyReport, ProxyRoute } from '../core/ingest/proxy-pools.ts';
import { parseProxy } from './proxy.ts';

/** Failures in a row after which an address is not used for a while. */
const FAILURES = 3;
/** How much one request changes the score. */
const WEIGHT = 0.2;

type Member = {
  readonly pool: string;
  readonly address: string;
  readonly proxy: ProxyAddress;
  score: number;
  failuresInRow: number;
  ejections: number;
  ejectedUntilMs: number;
  successes: number;
  failures: number;
  isReported: boolean;
};

export type HealthPoolsOptions = {
  /** The URLs of each pool, with credentials. */
  readonly pools: ReadonlyMap<string, readonly string[]>;
  readonly nowMs?: () => number;
};

/** Chooses among the addresses of proxy pools by how well they worked in this process. */
export class HealthPools implements ProxyPools {
  readonly #members: ReadonlyMap<string, readonly Member[]>;
  readonly #nowMs: () => number;
  #paused: ReadonlySet<string> = new Set();
  #turn = 0;

  /** Throws if a URL is not valid. The message names the pool, and not the URL, which may contain a password. */
  constructor({ pools, nowMs = () => performance.now() }: HealthPoolsOptions) {
    this.#nowMs = nowMs;
    this.#members = new Map([...pools].map(([pool, urls]) => [pool, urls.map((url, index) => memberOf(pool, url, index))]));
  }

  setPaused(pools: ReadonlySet<string>): void {
    this.#paused = pools;
  }

  routesOf(names: readonly string[]): readonly PoolRoutes[] {
    const found = [...new Set(names)].map((pool) => this.#routesOf(pool, false));
    if (found.some(({ kind }) => kind === 'usable')) return found;
    return found.map((routes) => (routes.kind === 'skipped' && routes.why === 'ejected' ? this.#routesOf(routes.pool, true) : routes));
  }

  #routesOf(pool: string, usesEjected: boolean): PoolRoutes {
    const members = this.#members.get(pool) ?? [];
    if (members.length === 0) return { kind: 'skipped', pool, why: 'undefined' };
    if (this.#paused.has(pool)) return { kind: 'skipped', pool, why: 'paused' };
    const nowMs = this.#nowMs();
    const usable = usesEjected ? members : members.filter(({ ejectedUntilMs }) => ejectedUntilMs <= nowMs);
    if (usable.length === 0) return { kind: 'skipped', pool, why: 'ejected' };
    const turn = this.#turn++ % usable.length;
    const inTurn = [...usable.slice(turn), ...usable.slice(0, turn)];
    // Addresses that work about equally well take turns.
    const sorted = usesEjected
      ? inTurn.toSorted((one, other) => one.ejectedUntilMs - other.ejectedUntilMs)
      : inTurn.toSorted((one, other) => Math.round(other.score * 4) - Math.round(one.score * 4));
    return { kind: 'usable', pool, routes: sorted.map((member) => this.#routeTo(member)) };
  }

  #routeTo(member: Member): ProxyRoute {
    const { pool, address, proxy } = member;
    return { pool, address, proxy, report: (worked) => this.#report(member, worked) };
  }

  #report(member: Member, worked: boolean): void {
    member.isReported = false;
    member.score += ((worked ? 1 : 0) - member.score) * WEIGHT;
    if (worked) {
      member.successes++;
      member.failuresInRow = 0;
      member.ejections = 0;
      member.ejectedUntilMs = 0;
      return;
    }
    member.failures++;
    member.failuresInRow++;
    const nowMs = this.#nowMs();
    // Requests that were in flight when the address was ejected say nothing new.
    if (member.failuresInRow < FAILURES || member.ejectedUntilMs > nowMs) return;
    member.ejectedUntilMs = nowMs + pauseMs(PAUSES.proxyEjected, member.ejections, 0);
    member.ejections++;
  }

  /** What is new since the last call. The first call lists all addresses. */
  takeReports(): ProxyReport[] {
    const nowMs = this.#nowMs();
    const changed = [...this.#members.values()].flat().filter(({ isReported }) => !isReported);
    return changed.map((member) => {
      const { pool, address, score, successes, failures } = member;
      member.isReported = true;
      member.successes = 0;
      member.failures = 0;
      return { pool, address, score, successes, failures, ejectedMs: member.ejectedUntilMs > nowMs ? member.ejectedUntilMs - nowMs : null };
    });
  }

  /** The names of the pools with their addresses, without credentials. */
  get addresses(): ReadonlyMap<string, readonly string[]> {
    return new Map([...this.#members].map(([pool, members]) => [pool, members.map(({ address }) => address)]));
  }
}

function memberOf(pool: string, url: string, index: number): Member {
  const proxy = parseProxy(url);
  if (proxy === null) {
    throw new TypeError(
      `URL ${index + 1} of the proxy pool ${JSON.stringify(pool)} is not valid. Write http://user:password@host:3128 or socks5://host:1080.`,
    );
  }
  const host = proxy.host.includes(':') ? `[${proxy.host}]` : proxy.host;
  const health = { score: 1, failuresInRow: 0, ejections: 0, ejectedUntilMs: 0, successes: 0, failures: 0, isReported: false };
  return { pool, address: `${proxy.kind}://${host}:${proxy.port}`, proxy, ...health };
}
