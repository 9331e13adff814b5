import type { ApiServer } from '../../platform/api-server.ts';
import { DatabaseWatch } from '../../platform/database-watch.ts';
import { openPlatform, watchable } from '../../platform/platform.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { maskPassword, settingsOf } from '../connection.ts';
import { LISTEN_OPTIONS, listenSettings } from '../listen-options.ts';
import { listenForStop } from '../stop-signals.ts';

export const serve = defineCommand({
  name: 'serve',
  summary: 'answer the HTTP API and send webhooks; jobs run in other processes',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: LISTEN_OPTIONS,
  details: [
    'Runs no job itself: start "millrace work" beside it, on as many machines as you like. A shared database must be up to date:',
    'see "millrace migrate". SIGTERM or SIGINT lets requests finish and stops. A second signal ends the process at once.',
  ].join('\n'),
  examples: ['millrace serve --database postgres://user@host/db', 'millrace serve --host 0.0.0.0 --port 8080'],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof LISTEN_OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const { config } = settingsOf(values, listenSettings(values));
  const stop = listenForStop(() => out.event({ event: 'forced' }, 'Stopped at once.'));
  // Loaded here alone: every other command starts sooner without an HTTP server.
  const { openApi } = await import('../../platform/api-server.ts');
  const platform = await openPlatform({ config, out, migrates: false, concurrency: 0 });
  const watch = new DatabaseWatch(watchable(platform), out);
  let api: ApiServer | null = null;
  try {
    api = await openApi(platform, { config, out });
    await platform.start();
    const url = await api.listen();
    const database = maskPassword(platform.postgres.url);
    const lines = [
      `Serving ${url}`,
      `  API page  ${url}/docs`,
      `  database  ${database}`,
      'Stop with Ctrl-C or SIGTERM.',
    ];
    out.event({ event: 'listening', url, database, home: platform.postgres.home, pid: process.pid }, lines.join('\n'));
    await stop.asked;
    out.event({ event: 'stopping' }, 'Stopping.');
  } finally {
    watch.stop();
    await api?.close();
    await platform.close(0);
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}
