import type { ProxyReport } from '../../core/ingest/proxy-pools.ts';
import { pausedPools, reportProxies } from '../../ledger/downloads/proxies.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';

const EVERY_MS = 2_000;

/** The pools of this process. */
export type SyncedPools = {
  takeReports(): ProxyReport[];
  setPaused(pools: ReadonlySet<string>): void;
};

/** Reads which pools an operator paused, and writes how well the proxies worked. */
export class ProxySync extends LoopService {
  readonly #database: Database;
  readonly #pools: SyncedPools;

  constructor({ database, events, pools }: { database: Database; events: EventHub; pools: SyncedPools }) {
    super({ name: 'proxy pools', events });
    this.#database = database;
    this.#pools = pools;
  }

  async round(): Promise<number> {
    this.#pools.setPaused(await pausedPools(this.#database.maintenance));
    const reports = this.#pools.takeReports();
    if (reports.length > 0) await reportProxies(this.#database.maintenance, reports);
    return EVERY_MS;
  }
}
