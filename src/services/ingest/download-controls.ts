import { BY_PROGRAM, NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import type { HostLimits, HostView } from '../../core/ingest/host-gate.ts';
import type { PoolView } from '../../core/ingest/proxy-view.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { listHosts, setHostPaused } from '../../ledger/downloads/hosts.ts';
import { listProxies, pausedPools, setPoolPaused } from '../../ledger/downloads/proxies.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import type { Page } from './read-jobs.ts';

/** What operators see and change of the hosts and proxies of downloads. */
export type DownloadControls = {
  hosts(page: Page): Promise<{ items: readonly HostView[]; nextCursor: string | null }>;
  pauseHost(host: string, paused: boolean, requester?: Requester): Promise<void>;
  pools(): Promise<readonly PoolView[]>;
  /** Returns false if no job type and no section names the pool. */
  pausePool(pool: string, paused: boolean, requester?: Requester): Promise<boolean>;
  /** The names of pools that cannot be used. */
  unhealthyPools(): Promise<readonly string[]>;
};

export type ControlsOptions = {
  readonly database: Database;
  readonly limits: HostLimits;
  /** The pools that the configuration defines, with their addresses without credentials. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  /** The pools that job types name. */
  readonly named: readonly string[];
};

const HOSTS = { list: 'DOWNLOAD_HOSTS', orgId: 'operators', filter: {} } as const;

export function downloadControls({ database, limits, addresses, named }: ControlsOptions): DownloadControls {
  const names = [...new Set([...addresses.keys(), ...named])].sort();
  const pools = async (): Promise<PoolView[]> => {
    const [rows, paused] = [await listProxies(database.api), await pausedPools(database.api)];
    return names.map((name) => {
      const known = (addresses.get(name) ?? []).map((address) => {
        const row = rows.find((each) => each.pool === name && each.address === address);
        const { score = 1, ejectedUntil = null, successes = 0, failures = 0 } = row ?? {};
        return { address, score, ejectedUntil, successes, failures };
      });
      return { name, healthy: known.some(({ ejectedUntil }) => ejectedUntil === null), paused: paused.has(name), addresses: known };
    });
  };
  return {
    async hosts({ cursor, limit }) {
      const seal = await sealOf(database.api);
      const after = cursor === null ? '' : (readPageCursor(seal, HOSTS, cursor)[0] as string);
      const items = await listHosts(database.api, { after, limit: limit + 1, limits });
      const page = items.slice(0, limit);
      const last = page.at(-1);
      return { items: page, nextCursor: items.length > limit && last !== undefined ? writePageCursor(seal, HOSTS, [last.host]) : null };
    },
    pauseHost: (host, paused, requester = BY_PROGRAM) =>
      inTransaction(database.api, async (client) => {
        await setHostPaused(client, host, paused);
        const event = paused ? 'host.paused' : 'host.resumed';
        await recordActions(client, [{ orgId: NIL_ORG_ID, event, requester, details: { host } }]);
      }),
    pools,
    async pausePool(pool, paused, requester = BY_PROGRAM) {
      if (!names.includes(pool)) return false;
      await inTransaction(database.api, async (client) => {
        await setPoolPaused(client, pool, paused);
        const event = paused ? 'proxy.paused' : 'proxy.resumed';
        await recordActions(client, [{ orgId: NIL_ORG_ID, event, requester, details: { pool } }]);
      });
      return true;
    },
    async unhealthyPools() {
      if (names.length === 0) return [];
      return (await pools()).filter(({ healthy }) => !healthy).map(({ name }) => name);
    },
  };
}
