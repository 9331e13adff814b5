import { existsSync } from 'node:fs';
import type { PostgresHandle } from '../../postgres/open.ts';
import { createFirstOrgAndKey } from '../../services/access/bootstrap.ts';
import { defineCommand, type Invocation } from '../command.ts';
import { maskPassword } from '../connection.ts';
import type { Output } from '../output.ts';
import { LISTEN_OPTIONS, runServer, type Started } from '../run-server.ts';
import { keyFileIn, welcome } from '../welcome.ts';

export const up = defineCommand({
  name: 'up',
  summary: 'start the database, the HTTP API and workers in one process',
  options: LISTEN_OPTIONS,
  details: [
    'Starts an embedded PostgreSQL unless you name a server, brings the schema up to date, serves the HTTP API and runs jobs of',
    'the built-in types. On an empty database it creates the org "default" and a first API key. The key is shown once and saved in',
    'the data folder. SIGTERM or SIGINT lets requests and running jobs finish within workers.drain_grace. A second signal ends the',
    'process immediately.',
  ].join('\n'),
  examples: ['millrace up', 'millrace up --port 9000 --home /var/lib/millrace', 'DATABASE_URL=postgres://user@host/db millrace up'],
  isLongRunning: true,
  run: (invocation: Invocation<typeof LISTEN_OPTIONS>) =>
    runServer(invocation, { runsJobs: true, greet: (started) => greet(started, invocation.out) }),
});

async function greet({ platform, url, config }: Started, out: Output): Promise<void> {
  const { home } = platform.postgres;
  const firstKey = await createFirstOrgAndKey(platform.database, { home, lifetimeMs: config.auth.keyLifetimeMs });
  const keyFile = home !== null && existsSync(keyFileIn(home)) ? keyFileIn(home) : null;
  const database = maskPassword(platform.postgres.url);
  const first = firstKey === null ? {} : { org: firstKey.orgSlug, key: firstKey.key };
  const { registration } = config.execution;
  const facts = { url, database: home === null ? database : embeddedAt(platform.postgres), home, firstKey, keyFile, registration };
  out.event({ event: 'up', url, database, home, keyFile, ...first, pid: process.pid }, [
    out.paint('green', 'Millrace is up.'),
    ...welcome(facts),
  ]);
}

/** The URL of a socket is hard to read. */
function embeddedAt({ url, version }: PostgresHandle): string {
  const { hostname, port } = new URL(url);
  const host = decodeURIComponent(hostname);
  return `PostgreSQL ${Math.floor(version / 10_000)}, embedded, ${host.startsWith('/') ? `socket in ${host}` : `at ${host}:${port}`}`;
}
