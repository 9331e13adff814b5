import { defineCommand, type Invocation } from '../command.ts';
import { maskPassword } from '../connection.ts';
import { LISTEN_OPTIONS, runServer } from '../run-server.ts';

export const serve = defineCommand({
  name: 'serve',
  summary: 'serve the HTTP API and send webhooks; jobs run in other processes',
  options: LISTEN_OPTIONS,
  details: [
    'Runs no jobs: start "millrace work" as well, on as many machines as you like. A shared database must be up to date: see',
    '"millrace migrate". SIGTERM or SIGINT lets requests finish and stops. A second signal ends the process immediately.',
  ].join('\n'),
  examples: ['millrace serve --database postgres://user@host/db', 'millrace serve --host 0.0.0.0 --port 8080'],
  isLongRunning: true,
  run: (invocation: Invocation<typeof LISTEN_OPTIONS>) =>
    runServer(invocation, {
      runsJobs: false,
      greet({ platform, url }) {
        const database = maskPassword(platform.postgres.url);
        const lines = [`Serving ${url}`, `  API page  ${url}/docs`, `  database  ${database}`, 'Stop with Ctrl-C or SIGTERM.'];
        const facts = { url, database, home: platform.postgres.home, pid: process.pid };
        invocation.out.event({ event: 'listening', ...facts }, lines);
      },
    }),
});
