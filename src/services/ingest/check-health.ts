import type { StreamLog } from '../../core/ingest/stream.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import type { IngestContext } from './context.ts';

type ComponentStatus = 'healthy' | 'degraded' | 'unhealthy';

type ComponentHealth = { readonly status: ComponentStatus; readonly message?: string };

export type IngestHealth = {
  readonly status: ComponentStatus;
  readonly components: Readonly<Record<'api' | 'ledger' | 'stream' | 'storage' | 'proxy_pools', ComponentHealth>>;
};

export type HealthParts = Pick<IngestContext, 'engine' | 'store' | 'settings'> & {
  readonly streams: StreamLog;
  /** The names of pools that cannot be used. */
  unhealthyPools(): Promise<readonly string[]>;
};

const PATIENCE_MS = 2_000;

/** Asks each part that a submission needs. Proxy pools only degrade the health, because downloads are retried. */
export async function checkIngestHealth(parts: HealthParts): Promise<IngestHealth> {
  const [ledger, stream, storage] = await Promise.all([
    healthOf(() => readClock(parts.engine.database.api), 'The database does not respond.'),
    healthOf(() => parts.streams.head('jobs.tasks'), 'The streams cannot be read.'),
    healthOf(() => parts.store.check(parts.settings.bucket), 'The object store cannot be written.'),
  ]);
  const ailing = await parts.unhealthyPools().catch(() => []);
  const message = `These proxy pools cannot be used: ${ailing.join(', ').slice(0, 500)}.`;
  const proxyPools: ComponentHealth = ailing.length === 0 ? { status: 'healthy' } : { status: 'degraded', message };
  const isBroken = [ledger, stream, storage].some(({ status }) => status === 'unhealthy');
  return {
    status: isBroken ? 'unhealthy' : proxyPools.status,
    components: { api: { status: 'healthy' }, ledger, stream, storage, proxy_pools: proxyPools },
  };
}

async function healthOf(ask: () => Promise<unknown>, message: string): Promise<ComponentHealth> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<ComponentHealth>((resolve) => {
    timer = setTimeout(
      () => resolve({ status: 'unhealthy', message: `${message} It took more than ${PATIENCE_MS / 1_000} s.` }),
      PATIENCE_MS,
    );
  });
  const asked = ask().then(
    (): ComponentHealth => ({ status: 'healthy' }),
    (): ComponentHealth => ({ status: 'unhealthy', message }),
  );
  return Promise.race([asked, late]).finally(() => clearTimeout(timer));
}
