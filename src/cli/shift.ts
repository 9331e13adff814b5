import { EXECUTION_TYPE } from '../core/execution/kinds.ts';
import { submittedLimit } from '../core/limit.ts';
import { SIMULATE_TYPE } from '../core/simulation.ts';
import { openDatabase } from '../ledger/driver/database.ts';
import type { Watched } from '../platform/database-watch.ts';
import { openPlatform, probeDatabase, watchable } from '../platform/platform.ts';
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

export type ShiftOptions = { concurrency: number; queues: readonly string[]; name?: string };

type ModuleOptions = ShiftOptions & {
  /** The database of this process; default: the one of the settings. */
  database?: string;
  /** Prints what happens to the jobs; default: as `millrace work` does. */
  report?(jobs: JobSource): void;
};

/** Runs the handlers of the user's modules. */
export async function openModules(connection: Connection, modules: readonly string[], given: ModuleOptions): Promise<Shift> {
  const { config } = settingsOf(connection.values);
  const { queues, concurrency, name, database, report = (jobs) => reportJobs(jobs, connection.out) } = given;
  const options = { concurrency, name, queues: [...queues], reserve: config.workers.reservePercent };
  const millrace = await openMillrace(connection, database === undefined ? options : { ...options, database });
  report(millrace);
  // Its sessions are opened only after a failure.
  const probed = openDatabase({ url: millrace.databaseUrl });
  const close = async () => {
    await probed.close();
    await millrace.close({ grace: 0 });
  };
  try {
    const types = await registerModules(millrace, modules);
    for (const { name, order, paused, limit } of config.queues) {
      if (order !== undefined) await millrace.queues.configure(name, { order });
      if (limit !== undefined) await millrace.queues.configure(name, { limit: limit && submittedLimit(limit) });
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
  });
  reportJobs(platform.engine.events, out);
  return {
    types: [SIMULATE_TYPE, EXECUTION_TYPE],
    databaseUrl: platform.postgres.url,
    ...watchable(platform),
    start: () => platform.start(),
    drain: (graceMs) => platform.drain(graceMs),
    close: () => platform.close(0),
  };
}
