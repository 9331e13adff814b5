import { existsSync } from 'node:fs';
import type { PostgresHandle } from '../../postgres/open.ts';
import { createFirstOrgAndKey } from '../../services/access/bootstrap.ts';
import { defineCommand, type Invocation } from '../command.ts';
import { maskPassword } from '../connection.ts';
import type { Output } from '../output.ts';
import { LISTEN_OPTIONS, runServer, type Started } from '../run-server.ts';
import { keyFileIn, welcome } from '../welcome.ts';

const OPTIONS = {
  ...LISTEN_OPTIONS,
  quiet: { type: 'boolean', help: 'print no lines about jobs' },
} as const;

export const up = defineCommand({
  name: 'up',
  summary: 'start the database, the HTTP API and workers in one process',
  takes: '[MODULE...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'Starts an embedded PostgreSQL unless you name a server, brings the schema up to date, serves the HTTP API and runs jobs of',
    'the built-in types. A module is a file with your own handlers, as for "millrace work"; they run in the same process.',
    'On an empty database it creates the org "default" and a first API key. The key is shown once and saved in the data folder.',
    'Prints a line when a job completes or fails; when there are many, a line each second counts them.',
    'SIGTERM or SIGINT lets requests and running jobs finish within workers.drain_grace. A second signal ends the',
    'process immediately.',
  ].join('\n'),
  examples: [
    'millrace up',
    'millrace up ./handlers.ts',
    'millrace up --port 9000 --home /var/lib/millrace --quiet',
    'DATABASE_URL=postgres://user@host/db millrace up',
  ],
  isLongRunning: true,
  run: (invocation: Invocation<typeof OPTIONS>) => {
    const { values, args, out } = invocation;
    return runServer(invocation, { runsJobs: true, modules: args, isQuiet: values.quiet, greet: (started) => greet(started, out) });
  },
});

async function greet({ platform, url, config, types, operator }: Started, out: Output): Promise<void> {
  const { home } = platform.postgres;
  const firstKey = await createFirstOrgAndKey(platform.database, { home, lifetimeMs: config.auth.keyLifetimeMs });
  const keyFile = home !== null && existsSync(keyFileIn(home)) ? keyFileIn(home) : null;
  const shown = maskPassword(platform.postgres.url);
  const databaseUrl = shown.includes('***') ? null : shown;
  const database = home === null ? shown : embeddedAt(platform.postgres);
  const first = firstKey === null ? {} : { org: firstKey.orgSlug, key: firstKey.key };
  const { registration } = config.execution;
  const token = operator.isNew ? { operatorToken: operator.token } : {};
  out.event(
    { event: 'up', url, database: shown, home, keyFile, types, ...first, ...token, operatorTokenFile: operator.file, pid: process.pid },
    [
      out.paint('green', 'Millrace is up.'),
      ...welcome({ url, database, databaseUrl, home, firstKey, keyFile, registration, types, operator }),
    ],
  );
}

/** The URL of a socket is hard to read. */
function embeddedAt({ url, version }: PostgresHandle): string {
  const { hostname, port } = new URL(url);
  const host = decodeURIComponent(hostname);
  return `PostgreSQL ${Math.floor(version / 10_000)}, embedded, ${host.startsWith('/') ? `socket in ${host}` : `at ${host}:${port}`}`;
}
