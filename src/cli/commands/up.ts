import { existsSync } from 'node:fs';
import type { Config } from '../../config/load-config.ts';
import type { ApiServer } from '../../platform/api-server.ts';
import { DatabaseWatch } from '../../platform/database-watch.ts';
import { openPlatform, type Platform, watchable } from '../../platform/platform.ts';
import { createFirstOrgAndKey } from '../../services/access/bootstrap.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { maskPassword, settingsOf } from '../connection.ts';
import { reportJobs } from '../job-reports.ts';
import { LISTEN_OPTIONS, listenSettings } from '../listen-options.ts';
import type { Output } from '../output.ts';
import { listenForStop } from '../stop-signals.ts';
import { keyFileIn, welcome } from '../welcome.ts';

export const up = defineCommand({
  name: 'up',
  summary: 'start Millrace here: database, HTTP API and workers in one process',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: LISTEN_OPTIONS,
  details: [
    'Starts a PostgreSQL of its own unless you name one, brings the schema up to date, answers the HTTP API and runs jobs of the',
    'built-in types. On an empty database it makes the org "default" and a first API key, shown once and kept in the data folder.',
    'SIGTERM or SIGINT lets requests and running jobs finish within workers.drain_grace. A second signal ends it at once.',
  ].join('\n'),
  examples: [
    'millrace up',
    'millrace up --port 9000 --home /var/lib/millrace',
    'DATABASE_URL=postgres://user@host/db millrace up',
  ],
  isLongRunning: true,
  run,
});

const CONCURRENCY = 10;

async function run(invocation: Invocation<typeof LISTEN_OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const { config } = settingsOf(values, listenSettings(values));
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped at once.'));
  const concurrency = config.workers.concurrency ?? CONCURRENCY;
  // Loaded here alone: every other command starts sooner without an HTTP server.
  const { openApi } = await import('../../platform/api-server.ts');
  const platform = await openPlatform({ config, out, migrates: true, concurrency });
  const watch = new DatabaseWatch(watchable(platform), out);
  if (out.verbose) reportJobs(platform.engine.events, out);
  let api: ApiServer | null = null;
  let graceMs = 0;
  try {
    api = await openApi(platform, { config, out });
    await platform.start();
    await greet(platform, { url: await api.listen(), config, out });
    await stop.asked;
    graceMs = config.workers.drainGraceMs;
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

async function greet(
  platform: Platform,
  { url, config, out }: { url: string; config: Config; out: Output },
): Promise<void> {
  const { home } = platform.postgres;
  const firstKey = await createFirstOrgAndKey(platform.database, { home, lifetimeMs: config.auth.keyLifetimeMs });
  const keyFile = home !== null && existsSync(keyFileIn(home)) ? keyFileIn(home) : null;
  const database = maskPassword(platform.postgres.url);
  const first = firstKey === null ? {} : { org: firstKey.orgSlug, key: firstKey.key };
  const { registration } = config.execution;
  const facts = { url, database, home, firstKey, keyFile, registration };
  out.event(
    { event: 'up', url, database, home, keyFile, ...first, pid: process.pid },
    [out.paint('green', 'Millrace is up.'), ...welcome(facts)].join('\n'),
  );
}
