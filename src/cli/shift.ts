import { EXECUTION_TYPE } from '../core/execution/kinds.ts';
import { FETCH_TYPE } from '../core/ingest/fetch-task.ts';
import { registeredIngestHandlers } from '../core/ingest/handler.ts';
import { submittedLimit } from '../core/limit.ts';
import { SIMULATE_TYPE } from '../core/simulation.ts';
import { openDatabase } from '../ledger/driver/database.ts';
import type { Watched } from '../platform/database-watch.ts';
import { observeExecutionLoops } from '../platform/execution-telemetry.ts';
import { logJobs } from '../platform/job-lines.ts';
import { openPlatform, probeDatabase, watchable } from '../platform/platform.ts';
import { observeProcess } from '../platform/process-observer.ts';
import type { ProcessTelemetry } from '../platform/process-telemetry.ts';
import { type Connection, openMillrace, settingsOf } from './connection.ts';
import { registerModules } from './handler-modules.ts';
import { type JobSource, reportJobs } from './job-reports.ts';

/** The workers of this process. */
export type Shift = Watched & {
  types: readonly string[];
  databaseUrl: string;
  start(): Promise<void>;
  drain(graceMs: number): Promise<void>;
  close(): Promise<void>;
};

export type ShiftOptions = { concurrency: number; queues: readonly string[]; name?: string; telemetry: ProcessTelemetry };

type ModuleOptions = ShiftOptions & {
  /** The database of this process; default: the one of the settings. */
  database?: string;
  /** Prints what happens to the jobs; default: as `millrace work` does. */
  report?(jobs: JobSource): void;
};

/** Runs the handlers of the user's modules. */
export async function openModules(connection: Connection, modules: readonly string[], given: ModuleOptions): Promise<Shift> {
  const { config } = settingsOf(connection.values);
  const { queues, concurrency, name, database, telemetry, report = (jobs) => reportJobs(jobs, connection.out) } = given;
  const onNotice = (reason: string) => telemetry.log.warn('process.notice', { reason });
  const options = { concurrency, name, queues: [...queues], reserve: config.workers.reservePercent, onNotice };
  const millrace = await openMillrace(connection, database === undefined ? options : { ...options, database });
  report(millrace);
  logJobs(millrace, telemetry.log, connection.out);
  observeExecutionLoops(millrace, telemetry);
  observeProcess(millrace, null, telemetry);
  // Its sessions are opened only after a failure.
  const probed = openDatabase({ url: millrace.databaseUrl });
  const close = async () => {
    await probed.close();
    await millrace.close({ grace: 0 });
  };
  try {
    const types = await registerModules(millrace, modules);
    for (const { name, paused, limit, ...settings } of config.queues) {
      const change = limit === undefined ? settings : { ...settings, limit: limit && submittedLimit(limit) };
      if (Object.values(change).some((value) => value !== undefined)) await millrace.queues.configure(name, change);
      if (paused !== undefined) await (paused ? millrace.queues.pause(name) : millrace.queues.resume(name));
    }
    return {
      types,
      databaseUrl: millrace.databaseUrl,
      close,
      on: (event, listener) => millrace.on(event, listener),
      probe: () => probeDatabase(probed),
      start: () => millrace.start(),
      drain: (graceMs) => millrace.drain({ grace: `${graceMs}ms` }),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Runs the modules. If they registered handlers of the ingest API, the process also runs the built-in types, downloads among them. */
export async function openShift(connection: Connection, modules: readonly string[], options: ShiftOptions): Promise<Shift> {
  const own = await openModules(connection, modules, options);
  if (registeredIngestHandlers().size === 0) return own;
  let builtIns: Shift;
  try {
    builtIns = await openBuiltIns(connection, options);
  } catch (error) {
    await own.close();
    throw error;
  }
  const both = (act: (shift: Shift) => Promise<void>) => Promise.all([own, builtIns].map(act)).then(() => {});
  return {
    types: [...own.types, ...builtIns.types],
    databaseUrl: own.databaseUrl,
    on: (event, listener) => {
      own.on(event, listener);
      builtIns.on(event, listener);
    },
    probe: () => own.probe(),
    start: () => both((shift) => shift.start()),
    drain: (graceMs) => both((shift) => shift.drain(graceMs)),
    close: () => both((shift) => shift.close()),
  };
}

/** Runs the built-in job types and sends webhooks: `millrace up` without the API. */
export async function openBuiltIns({ values, out }: Connection, options: ShiftOptions): Promise<Shift> {
  const { config } = settingsOf(values);
  const { concurrency, name } = options;
  const platform = await openPlatform({
    config: { ...config, workers: { ...config.workers, queues: [...options.queues] } },
    out,
    migrates: true,
    concurrency,
    name,
    servesRequests: false,
    telemetry: options.telemetry,
  });
  try {
    platform.ingest.checkHandlers();
  } catch (error) {
    await platform.close(0);
    throw error;
  }
  reportJobs(platform.engine.events, out);
  return {
    types: [SIMULATE_TYPE, EXECUTION_TYPE, FETCH_TYPE],
    databaseUrl: platform.postgres.url,
    ...watchable(platform),
    start: () => platform.start(),
    drain: (graceMs) => platform.drain(graceMs),
    close: () => platform.close(0),
  };
}
