import type { Config, LoadParams } from '../config/load-config.ts';
import { checkOpenAccess } from '../config/open-access.ts';
import type { ApiServer } from '../platform/api-server.ts';
import { DatabaseWatch } from '../platform/database-watch.ts';
import { type OperatorToken, openOperatorToken } from '../platform/operator-token.ts';
import { openPlatform, type Platform, watchable } from '../platform/platform.ts';
import { EXIT, type Invocation } from './command.ts';
import { settingsOf } from './connection.ts';
import { JobDigest } from './job-digest.ts';
import { type JobSource, reportJobs, reportLogs } from './job-reports.ts';
import type { Output } from './output.ts';
import { openModules, type Shift } from './shift.ts';
import { listenForStop } from './stop-signals.ts';

export const LISTEN_OPTIONS = {
  port: { type: 'string', value: 'N', help: 'the port to listen on; default 8484' },
  host: { type: 'string', value: 'ADDRESS', help: 'the address to listen on; default 127.0.0.1' },
} as const;

export type Started = {
  readonly platform: Platform;
  readonly url: string;
  readonly config: Config;
  readonly types: readonly string[];
  readonly operator: OperatorToken;
};

type ServerOptions = {
  /** Whether the process also runs jobs of the built-in types, and may bring the schema up to date. */
  readonly runsJobs: boolean;
  /** Modules with handlers of the user. Those of jobs run in this process too if it runs jobs. */
  readonly modules?: readonly string[];
  /** Prints no lines about jobs. */
  readonly isQuiet?: boolean;
  /** Called when the API listens. */
  greet(started: Started): Promise<void> | void;
};

const CONCURRENCY = 10;

/** Serves the HTTP API and sends webhooks until a signal stops the process. */
export async function runServer(invocation: Invocation<typeof LISTEN_OPTIONS>, options: ServerOptions): Promise<number> {
  const { values, out } = invocation;
  const { runsJobs, modules = [], isQuiet = false, greet } = options;
  const { config } = settingsOf(values, listenSettings(values));
  checkOpenAccess(config);
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped immediately.'));
  const concurrency = runsJobs ? (config.workers.concurrency ?? CONCURRENCY) : 0;
  // Loaded only here, so that the other commands start faster.
  const { openApi } = await import('../platform/api-server.ts');
  const platform = await openPlatform({ config, out, migrates: runsJobs, concurrency });
  const watch = new DatabaseWatch(watchable(platform), { out, log: platform.telemetry.log });
  const reports = new Reports(out, isQuiet);
  if (runsJobs) reports.ofBuiltIns(platform.engine.events);
  let shift: Shift | null = null;
  let api: ApiServer | null = null;
  let graceMs = 0;
  try {
    if (modules.length > 0) {
      const { queues } = config.workers;
      const report = (jobs: JobSource) => (runsJobs ? reports.ofModules(jobs) : undefined);
      const { telemetry } = platform;
      const options = { concurrency: Math.max(1, concurrency), queues, database: platform.postgres.url, report, telemetry };
      shift = await openModules(invocation, modules, options);
      shift.on('error', ({ error, where }) => platform.engine.events.emit('error', { error, where }));
    }
    platform.ingest.checkHandlers();
    const operator = await openOperatorToken(config);
    api = await openApi(platform, { config, out, operator });
    await platform.start();
    if (runsJobs) await shift?.start();
    await greet({ platform, url: await api.listen(), config, types: shift?.types ?? [], operator });
    await stop.asked;
    graceMs = runsJobs ? config.workers.drainGraceMs : 0;
    out.event({ event: 'stopping' }, 'Stopping.');
  } finally {
    watch.stop();
    await Promise.all([api?.close(), shift?.drain(graceMs), platform.drain(graceMs)]);
    reports.stop();
    await shift?.close();
    await platform.close(0);
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}

/** What `millrace up` prints about jobs: with --verbose every change, and otherwise a digest, which is for people only. */
class Reports {
  readonly #out: Output;
  readonly #isQuiet: boolean;
  readonly #digest: JobDigest;

  constructor(out: Output, isQuiet: boolean) {
    this.#out = out;
    this.#isQuiet = isQuiet;
    this.#digest = new JobDigest(out);
  }

  ofBuiltIns(jobs: JobSource): void {
    if (this.#isQuiet) return;
    if (this.#out.verbose) reportJobs(jobs, this.#out);
    else if (!this.#out.json) this.#digest.watch(jobs);
  }

  ofModules(jobs: JobSource): void {
    if (this.#isQuiet) return;
    if (this.#out.verbose || this.#out.json) {
      reportJobs(jobs, this.#out);
    } else {
      reportLogs(jobs, this.#out);
      this.#digest.watch(jobs);
    }
  }

  stop(): void {
    this.#digest.stop();
  }
}

const listenSettings = ({ port, host }: { port?: string; host?: string }): LoadParams['options'] => ({
  'server.port': { option: 'port', text: port },
  'server.host': { option: 'host', text: host },
});
