/** Configured by the operator, never by a user, so the address of a proxy is not checked. */
export type ProxyAddress = {
  readonly kind: 'http' | 'socks5';
  readonly host: string;
  readonly port: number;
  readonly username: string | null;
  readonly password: string | null;
};

/** One address of a pool. */
export type ProxyRoute = {
  readonly pool: string;
  /** Without credentials, for people. */
  readonly address: string;
  readonly proxy: ProxyAddress;
  /** Whether the proxy itself worked, whatever the target said. */
  report(worked: boolean): void;
};

/** The addresses of a pool, the best first; or why the pool is not used. */
export type PoolRoutes =
  | { readonly kind: 'usable'; readonly pool: string; readonly routes: readonly ProxyRoute[] }
  | { readonly kind: 'skipped'; readonly pool: string; readonly why: 'undefined' | 'paused' | 'ejected' };

export type ProxyPools = {
  /** In the order of the names. If all addresses of all pools are ejected, they are used nevertheless. */
  routesOf(names: readonly string[]): readonly PoolRoutes[];
};

/** What a process learned about an address since its last report. */
export type ProxyReport = {
  readonly pool: string;
  readonly address: string;
  /** The share of requests that worked, where later ones count more: 0 to 1. */
  readonly score: number;
  /** For how much longer the address is not used; null: it is used. */
  readonly ejectedMs: number | null;
  readonly successes: number;
  readonly failures: number;
};
