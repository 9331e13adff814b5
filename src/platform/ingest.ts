import type { Config } from '../config/load-config.ts';
import type { IngestSettings } from '../core/ingest/job-type.ts';
import { INGEST_QUEUE, ingestPolicy } from '../core/ingest/policy.ts';
import type { StreamLog } from '../core/ingest/stream.ts';
import type { Egress } from '../egress/egress.ts';
import { HealthPools } from '../egress/health-pools.ts';
import { ProxySync } from '../engine/downloads/proxy-sync.ts';
import { SharedHostGate } from '../engine/downloads/shared-host-gate.ts';
import type { Engine } from '../engine/engine.ts';
import type { Service } from '../engine/loop.ts';
import type { JobContext } from '../engine/work/job-context.ts';
import type { Registration, WrapHandler } from '../engine/work/registry.ts';
import { fetchRegistration } from '../handlers/fetch.ts';
import { finalizeRegistration } from '../handlers/finalize.ts';
import { downloadAttempts } from '../ledger/ingest/read-resources.ts';
import type { ObjectStore } from '../objects/object-store.ts';
import type { Admission } from '../services/admission/admission.ts';
import type { IngestContext } from '../services/ingest/context.ts';
import { type DownloadControls, downloadControls } from '../services/ingest/download-controls.ts';
import { IngestLog } from '../services/ingest/ingest-log.ts';
import { ingestServices } from '../services/ingest/ingest-services.ts';
import { postgresStreams } from '../services/ingest/postgres-streams.ts';
import { Settler } from '../services/ingest/settler.ts';
import type { Log } from '../telemetry/log.ts';
import { IngestHandlers } from './ingest-handlers.ts';
import { openObjectStore } from './object-store.ts';

/** The ingest API of a process: the parts that its doors need, and the services behind it. */
export type Ingest = Service & {
  readonly context: IngestContext;
  readonly streams: StreamLog;
  readonly downloads: DownloadControls;
  /** Artifacts are kept there too. */
  readonly store: ObjectStore;
  sweepUploads(): Promise<number>;
  /** Call it after the modules are loaded. Throws if a handler is not registered. */
  checkHandlers(): void;
  close(): Promise<void>;
};

export type IngestParams = {
  readonly engine: Engine;
  readonly config: Config;
  readonly egress: Egress;
  readonly admission: Admission;
  readonly log: Log;
  /** How many downloads run at the same time in this process; zero for none. */
  readonly slots: number;
  /** Puts the handlers of downloads inside spans. */
  readonly wrapHandler?: WrapHandler | undefined;
};

const FINALIZE_TIMEOUT_MS = 900_000;
/** Partial downloads older than any task. */
const UPLOADS_OLDER_THAN_MS = 8 * 86_400_000;
const SWEPT_AT_ONCE = 1_000;

/** Call this before the engine starts: it adds the crew that downloads. */
export async function composeIngest({ engine, config, egress, admission, log, slots, wrapHandler }: IngestParams): Promise<Ingest> {
  const { settings, retention } = config.ingest;
  const store = await openObjectStore(config);
  const handlers = new IngestHandlers(settings);
  const pools = new HealthPools({ pools: config.downloads.pools });
  const context: IngestContext = {
    engine,
    settings,
    store,
    admission,
    policy: ingestPolicy({ timeoutMs: config.downloads.limits.timeoutMs, retentionMs: retention.tasksMs }),
    finalPolicy: ingestPolicy({ timeoutMs: FINALIZE_TIMEOUT_MS, retentionMs: retention.ledgerMs }),
    handlerOf: (jobType) => handlers.of(jobType),
    onChanged: (jobIds) => settler.look(jobIds),
  };
  const settler = new Settler(context);
  const services = ingestServices(context, { settler });
  if (slots > 0) services.push(...addDownloadCrew({ engine, config, egress, store, pools, handlers, slots, wrapHandler }));
  const named = [...settings.jobTypes.values()].flatMap(({ proxies }) => proxies);
  for (const pool of new Set(named)) {
    if (config.downloads.pools.has(pool)) continue;
    const reason = `The proxy pool "${pool}" is named by a job type but has no section [proxies."${pool}"]. Downloads pass over it.`;
    log.warn('process.notice', { reason });
  }
  return {
    context,
    streams: postgresStreams(engine.database),
    downloads: downloadControls({ database: engine.database, limits: config.downloads.host, addresses: pools.addresses, named }),
    store,
    sweepUploads: () => sweepUploads({ settings, artifacts: config.artifacts.bucket, store }),
    checkHandlers: () => handlers.check(),
    async start() {
      for (const service of services) await service.start();
    },
    async stop() {
      await Promise.all(services.map((service) => service.stop()));
    },
    close: () => store.close(),
  };
}

type CrewParams = Pick<IngestParams, 'engine' | 'config' | 'egress' | 'slots' | 'wrapHandler'> & {
  store: ObjectStore;
  pools: HealthPools;
  handlers: IngestHandlers;
};

/** Downloads wait for other servers, so they have slots of their own. */
function addDownloadCrew({
  engine,
  config,
  egress,
  store,
  pools,
  handlers,
  slots,
  wrapHandler = (handler) => handler,
}: CrewParams): Service[] {
  const { database, events } = engine;
  const hosts = new SharedHostGate({ database, events, limits: config.downloads.host });
  const lines = new IngestLog(database);
  const log: Parameters<typeof fetchRegistration>[0]['log'] = (jobId, line) => lines.add(jobId, line);
  const flushLog = () => lines.flushTogether();
  const attemptsOf = (job: { orgId: string; jobId: string }) => downloadAttempts(database.workers, job);
  const { limits } = config.downloads;
  const fetch = fetchRegistration<JobContext>({ store, egress, pools, hosts, limits, attemptsOf, log, flushLog });
  const finalize = finalizeRegistration({ handlerOf: (name) => handlers.named(name), log, flushLog });
  const { queues } = config.workers;
  if (!queues.includes('*') && !queues.includes(INGEST_QUEUE)) return [];
  const timeoutMs = Math.max(config.downloads.limits.timeoutMs, FINALIZE_TIMEOUT_MS);
  const profile = ingestPolicy({ timeoutMs, retentionMs: config.ingest.retention.tasksMs });
  const registrations = ([fetch, finalize] as unknown as Registration[]).map((each) => ({ ...each, handler: wrapHandler(each.handler) }));
  engine.addCrew({ name: 'downloads', slots, queues: [INGEST_QUEUE], registrations, profile });
  return [hosts, new ProxySync({ database, events, pools })];
}

/** Removes the bytes of downloads that were never finished. Returns how many there were. */
async function sweepUploads({
  settings,
  artifacts,
  store,
}: {
  settings: IngestSettings;
  artifacts: string;
  store: ObjectStore;
}): Promise<number> {
  const buckets = new Set([settings.bucket, artifacts, ...[...settings.jobTypes.values()].flatMap(({ bucket }) => bucket ?? [])]);
  const before = new Date(Date.now() - UPLOADS_OLDER_THAN_MS);
  let swept = 0;
  for (const bucket of buckets) swept += await store.sweepUploads({ bucket, before, limit: SWEPT_AT_ONCE });
  return swept;
}
