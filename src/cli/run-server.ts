import { type Config, checkOpenRegistration, type LoadParams } from '../config/load-config.ts';
import type { ApiServer } from '../platform/api-server.ts';
import { DatabaseWatch } from '../platform/database-watch.ts';
import { openPlatform, type Platform, watchable } from '../platform/platform.ts';
import { EXIT, type Invocation } from './command.ts';
import { settingsOf } from './connection.ts';
import { reportJobs } from './job-reports.ts';
import { listenForStop } from './stop-signals.ts';

export const LISTEN_OPTIONS = {
  port: { type: 'string', value: 'N', help: 'the port to listen on; default 8484' },
  host: { type: 'string', value: 'ADDRESS', help: 'the address to listen on; default 127.0.0.1' },
} as const;

export type Started = { readonly platform: Platform; readonly url: string; readonly config: Config };

type ServerOptions = {
  /** Whether the process also runs jobs of the built-in types, and may bring the schema up to date. */
  readonly runsJobs: boolean;
  /** Called when the API listens. */
  greet(started: Started): Promise<void> | void;
};

const CONCURRENCY = 10;

/** Serves the HTTP API and sends webhooks until a signal stops the process. */
export async function runServer({ values, out }: Invocation<typeof LISTEN_OPTIONS>, { runsJobs, greet }: ServerOptions): Promise<number> {
  const { config } = settingsOf(values, listenSettings(values));
  checkOpenRegistration(config);
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped immediately.'));
  const concurrency = runsJobs ? (config.workers.concurrency ?? CONCURRENCY) : 0;
  // Loaded only here, so that the other commands start faster.
  const { openApi } = await import('../platform/api-server.ts');
  const platform = await openPlatform({ config, out, migrates: runsJobs, concurrency });
  const watch = new DatabaseWatch(watchable(platform), out);
  if (runsJobs && out.verbose) reportJobs(platform.engine.events, out);
  let api: ApiServer | null = null;
  let graceMs = 0;
  try {
    api = await openApi(platform, { config, out });
    await platform.start();
    await greet({ platform, url: await api.listen(), config });
    await stop.asked;
    graceMs = runsJobs ? config.workers.drainGraceMs : 0;
    out.event({ event: 'stopping' }, 'Stopping.');
  } finally {
    watch.stop();
    await Promise.all([api?.close(), platform.drain(graceMs)]);
    await platform.close(0);
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}

const listenSettings = ({ port, host }: { port?: string; host?: string }): LoadParams['options'] => ({
  'server.port': { option: 'port', text: port },
  'server.host': { option: 'host', text: host },
});
