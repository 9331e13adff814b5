import { defineCommand, type Invocation } from '../command.ts';
import { maskPassword } from '../connection.ts';
import { LISTEN_OPTIONS, runServer } from '../run-server.ts';
import { operatorLines } from '../welcome.ts';

export const serve = defineCommand({
  name: 'serve',
  summary: 'serve the HTTP API and send webhooks; jobs run in other processes',
  takes: '[MODULE...]',
  maxArgs: 1_000,
  options: LISTEN_OPTIONS,
  details: [
    'Runs no jobs: start "millrace work" as well, on as many machines as you like. A shared database must be up to date: see',
    '"millrace migrate". A module is a file with handlers of the ingest API, which prepare manifests here; give it to "millrace work" too.',
    'SIGTERM or SIGINT lets requests finish and stops. A second signal ends the process immediately.',
  ].join('\n'),
  examples: [
    'millrace serve --database postgres://user@host/db',
    'millrace serve --host 0.0.0.0 --port 8080',
    'millrace serve ./ingest-handlers.ts',
  ],
  isLongRunning: true,
  run: (invocation: Invocation<typeof LISTEN_OPTIONS>) =>
    runServer(invocation, {
      runsJobs: false,
      modules: invocation.args,
      greet({ platform, url, operator }) {
        const database = maskPassword(platform.postgres.url);
        const lines = [
          `Serving ${url}`,
          `  API page  ${url}/docs`,
          `  database  ${database}`,
          ...operatorLines(operator),
          'Stop with Ctrl-C or SIGTERM.',
        ];
        const token = operator.isNew ? { operatorToken: operator.token } : {};
        const facts = { url, database, home: platform.postgres.home, ...token, operatorTokenFile: operator.file, pid: process.pid };
        invocation.out.event({ event: 'listening', ...facts }, lines);
      },
    }),
});
