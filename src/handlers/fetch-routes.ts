import type { ProxyPools, ProxyRoute } from '../core/ingest/proxy-pools.ts';
import { type FetchFailure, temporary } from './fetch-verdict.ts';

/** The next address to try. `takesOver` says which pool was left or passed over, and why. */
type Turn =
  | { readonly kind: 'try'; readonly route: ProxyRoute | null; readonly takesOver: { readonly from: string; readonly why: string } | null }
  | { readonly kind: 'spent'; readonly failure: FetchFailure };

export type PoolTurn = { next(failure: FetchFailure | null): Turn };

/**
 * The pools of a task in their order. Another address of the same pool follows only if the proxy itself did not work. Without pools there
 * is one try without a proxy; with pools there is none, because the target must not see the address of the worker.
 */
export function poolTurns(pools: ProxyPools, names: readonly string[]): PoolTurn {
  if (names.length === 0) return directOnce();
  const found = pools.routesOf(names);
  const skipped = found.flatMap((pool) => (pool.kind === 'skipped' ? [`${pool.pool} (${pool.why})`] : []));
  const waiting = [...found];
  let routes: ProxyRoute[] = [];
  let last: { from: string; why: string } | null = null;
  return {
    next(failure) {
      const current = last?.from;
      if (failure !== null) last = { from: current ?? '', why: failure.code };
      const sameRoute = failure?.blamesProxy === true ? routes.shift() : undefined;
      if (sameRoute !== undefined) return { kind: 'try', route: sameRoute, takesOver: null };
      for (let pool = waiting.shift(); pool !== undefined; pool = waiting.shift()) {
        if (pool.kind === 'skipped') {
          last ??= { from: pool.pool, why: pool.why };
          continue;
        }
        const [route, ...others] = pool.routes;
        const takesOver = last;
        routes = others;
        last = { from: pool.pool, why: '' };
        return { kind: 'try', route: route as ProxyRoute, takesOver };
      }
      return { kind: 'spent', failure: temporary('PROXY_FAILED', `no proxy pool can be used: ${skipped.join(', ')}`) };
    },
  };
}

function directOnce(): PoolTurn {
  let isTried = false;
  return {
    next(failure) {
      if (isTried && failure !== null) return { kind: 'spent', failure };
      isTried = true;
      return { kind: 'try', route: null, takesOver: null };
    },
  };
}
