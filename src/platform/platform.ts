import type { Config } from '../config/load-config.ts';
import { AppError } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { Service } from '../engine/loop.ts';
import type { Registration } from '../engine/work/registry.ts';
import { simulateRegistration } from '../handlers/simulate.ts';
import { readClock } from '../ledger/driver/clock.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { isDiskFullNow } from '../ledger/driver/disk-room.ts';
import { checkSchema, migrate } from '../ledger/driver/migrate.ts';
import { NO_SECOND_LOCK, prepareReader } from '../ledger/driver/reader-role.ts';
import { onDiskFull } from '../ledger/driver/statement.ts';
import { configureQueue } from '../ledger/queues/queues.ts';
import { openPostgres, type PostgresHandle } from '../postgres/open.ts';
import type { Admission } from '../services/admission/admission.ts';
import { createQueueAdmission } from '../services/admission/queue-admission.ts';
import { bytesOf, StoredLimit } from '../services/admission/stored-limit.ts';
import type { WebhookParts } from '../services/execution/context.ts';
import { createEngine } from '../services/jobs/create-engine.ts';
import { traceHandlers } from '../services/jobs/trace-handlers.ts';
import type { Tracing } from '../telemetry/otlp.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { composeAlerts } from './alerts.ts';
import { artifactStorage } from './artifacts.ts';
import type { Watched } from './database-watch.ts';
import { composeDeliveries, type Deliveries, openEgress } from './deliveries.ts';
import { addExecutionCrew } from './execution-crew.ts';
import { lookUpIn, observeExecution } from './execution-telemetry.ts';
import { composeIngest, type Ingest } from './ingest.ts';
import { logJobs } from './job-lines.ts';
import { Maintenance } from './maintenance.ts';
import type { Notices } from './notices.ts';
import { observeDownloads, observeProcess } from './process-observer.ts';
import { openTraces, processTelemetry } from './process-telemetry.ts';
import { observeWebhooks } from './webhook-telemetry.ts';

/** The database, the engine, the webhooks and the ingest API of one process, set up from the configuration. */
export type Platform = {
  engine: Engine;
  database: Database;
  postgres: PostgresHandle;
  telemetry: Telemetry;
  webhooks: WebhookParts;
  ingest: Ingest;
  /** The limits on what orgs may put into the queue and the database. Jobs that handlers spawn count too. */
  limits: PlatformLimits;
  /** Starts to run jobs and to send webhooks. */
  start(): Promise<void>;
  /** Waits up to `graceMs` for running jobs, then stops them. */
  drain(graceMs: number): Promise<void>;
  close(graceMs: number): Promise<void>;
};

type PlatformLimits = { readonly queue: Admission; readonly stored: StoredLimit };

export type PlatformOptions = {
  config: Config;
  out: Notices;
  /** Whether to bring the schema of a shared database up to date. */
  migrates: boolean;
  /** How many jobs of each built-in type run at the same time; zero for none. */
  concurrency: number;
  name?: string;
  /** False for a process that only runs jobs. It needs fewer database sessions. */
  servesRequests?: boolean;
  /** Default: telemetry of its own. */
  telemetry?: Telemetry;
};

/** The default number of database sessions for requests. */
const API_POOL = 10;

export async function openPlatform(options: PlatformOptions): Promise<Platform> {
  const { config, out, migrates, concurrency, name, servesRequests = true } = options;
  const { url, home, apiPool, workerPool } = config.database;
  // A command that brings its own telemetry has opened its traces.
  const tracing = options.telemetry === undefined ? await openTraces(config.telemetry) : null;
  const telemetry = options.telemetry ?? processTelemetry(out, config.telemetry, tracing);
  const onNotice = (reason: string) => telemetry.log.warn('process.notice', { reason });
  const postgres = await openPostgres({ databaseUrl: url ?? '', home, onNotice });
  const database = openDatabase({
    url: postgres.url,
    apiPool: apiPool ?? undefined,
    workerPool: workerPool ?? undefined,
    sharesSessions: !servesRequests,
    apiBounds: { maxWaiting: 2 * (apiPool ?? API_POOL) },
  });
  try {
    if (migrates || postgres.kind === 'embedded') await migrate(database.maintenance);
    else await checkSchema(database.maintenance);
    if (!(await prepareReader(database.maintenance))) onNotice(NO_SECOND_LOCK);
    const limits = openLimits(database, config);
    const wrapHandler = config.telemetry.otlpEndpoint === null ? undefined : traceHandlers(telemetry.tracer);
    const engine = createEngine({
      ...(wrapHandler === undefined ? {} : { wrapHandler }),
      database,
      orgShare: config.limits.orgShare,
      admitChild: (child) => limits.queue.reserve({ orgId: child.orgId, jobs: 1, least: 1, bytes: bytesOf(child) }),
      profile: config.profile,
      categories: config.categories,
      name,
      maxResultBytes: config.limits.resultBytes,
      limits: { maxPayloadBytes: config.limits.payloadBytes, addresses: config.egress.policy },
      queues: config.workers.queues,
      concurrency: Math.max(1, concurrency),
      reservePercent: config.workers.reservePercent,
      heartbeatMs: config.execution.heartbeatMs,
      exitWhenBlocked: config.workers.exitWhenBlocked,
      revokedKeysMs: config.execution.revokedKeysMs,
      audit: config.audit,
      deadLetters: config.deadLetters,
    });
    observeProcess(engine.events, database, telemetry);
    observeDownloads(engine.events, telemetry);
    observeExecution(engine.events, telemetry, lookUpIn(engine));
    logJobs(engine.events, telemetry.log, out);
    observeWebhooks(engine.events, telemetry);
    if (concurrency > 0) registerBuiltIns(engine, config);
    const egress = openEgress(config);
    const maintenance = new Maintenance(engine);
    const deliveries = composeDeliveries({ engine, config, egress, maintenance: maintenance.registration });
    const ingest = await composeIngest({
      engine,
      config,
      egress,
      admission: limits.queue,
      log: telemetry.log,
      slots: concurrency,
      wrapHandler,
    });
    engine.artifacts = artifactStorage(config, ingest.store, (load) => limits.stored.take(load));
    maintenance.equip({ config, deliveries, ingest });
    const alerts = composeAlerts({ engine, config, egress, telemetry, postgres, store: ingest.store });
    // Every start applies the configured queues. Other queues keep their settings.
    for (const queue of config.queues) await configureQueue(database.api, queue);
    await engine.open();
    return platformOf({ engine, database, postgres, telemetry, limits, deliveries, ingest, tracing, maintenance, alerts });
  } catch (error) {
    await database.close();
    await postgres.close();
    throw error;
  }
}

function openLimits(database: Database, { limits: { queueSize, orgShare, storedBytes } }: Config): PlatformLimits {
  const stored = new StoredLimit(database, { storedBytes, orgShare });
  return { stored, queue: createQueueAdmission({ database }, { queueSize, orgShare, stored }) };
}

type Parts = Pick<Platform, 'engine' | 'database' | 'postgres' | 'telemetry' | 'limits' | 'ingest'> & {
  deliveries: Deliveries;
  tracing: Tracing | null;
  maintenance: Maintenance;
  alerts: Service;
};

function platformOf({ deliveries, tracing, maintenance, alerts, ...parts }: Parts): Platform {
  const { engine, database, postgres, ingest } = parts;
  const drain = async (graceMs: number): Promise<void> => {
    // Stop the deliveries first, so that none becomes a job that this process no longer runs.
    await deliveries.stop();
    await alerts.stop();
    await engine.drain(graceMs);
    // Running downloads need their places at hosts until they have ended.
    await ingest.stop();
  };
  return {
    ...parts,
    webhooks: deliveries.parts,
    drain,
    async start() {
      await engine.start();
      await deliveries.start();
      await ingest.start();
      await maintenance.start();
      await alerts.start();
    },
    async close(graceMs) {
      await drain(graceMs);
      await engine.submitter.idle();
      await ingest.close();
      await tracing?.close();
      await database.close();
      await postgres.close();
    },
  };
}

/** Simulated jobs are timers, so that many of them cost little. There must be more slots than clients who fill them with long jobs. */
const EXECUTION_SLOTS = 200;

function registerBuiltIns(engine: Engine, { simulation, execution, workers }: Config): void {
  const { timeScale, bounds } = simulation;
  engine.registry.register(simulateRegistration({ timeScale, bounds }) as unknown as Registration);
  const slots = workers.concurrency ?? EXECUTION_SLOTS;
  addExecutionCrew(engine, { timeScale, activeJobs: execution.activeJobs, slots, queues: workers.queues });
}

/** The parts of the platform that a `DatabaseWatch` needs. */
export const watchable = ({ engine, database }: Platform): Watched => ({
  on(event, listener) {
    engine.events.on(event, listener);
    // A request that fails is reported to its caller, and not as an event.
    onDiskFull((error) => listener({ error, where: 'database' }));
  },
  probe: () => probeDatabase(database),
});

/** Throws if the database cannot be reached, or if its disk is full. */
export async function probeDatabase({ maintenance }: Database): Promise<void> {
  await readClock(maintenance);
  if (await isDiskFullNow(maintenance)) throw new AppError('DATABASE_DISK_FULL');
}
