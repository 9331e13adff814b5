// One of the servers that bench/http.ts and bench/traces.ts compare: `bare`, `queue <database url>`, `execution <database url>` or
// `running <database url> [collector]`. Reports its port, and ends with its parent.
import Fastify from 'fastify';
import { Output } from '../src/cli/output.ts';
import { loadConfig } from '../src/config/load-config.ts';
import { PROFILES } from '../src/core/policy.ts';
import { openQueueDoor } from '../src/http/queue/door.ts';
import { buildServer } from '../src/http/server.ts';
import { KeyAuthenticator } from '../src/http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../src/http/shared/rate-limiter.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { migrate } from '../src/ledger/driver/migrate.ts';
import { openApi } from '../src/platform/api-server.ts';
import { openPlatform } from '../src/platform/platform.ts';
import { createFirstOrgAndKey } from '../src/services/access/bootstrap.ts';
import { createEngine } from '../src/services/jobs/create-engine.ts';

export type Serving = { port: number; key: string | null };
/** `listen` returns the address. */
type Server = { key: string | null; listen(): Promise<string>; close(): Promise<void> };

/** No worker runs the jobs of this benchmark. */
const ANY_DEPTH = 1_000_000_000;
const ANYWHERE = { port: 0, host: '127.0.0.1' };

/** Reads the same body and sends a response of the same size. */
function openBare(): Server {
  const http = Fastify({ logger: false });
  http.post('*', async (request, reply) => {
    const { type } = request.body as { type: string };
    const at = new Date().toISOString();
    const job_id = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';
    return reply.code(202).send({ job_id, status: 'ACCEPTED', state: type, created_at: at, scheduled_for: at });
  });
  return { key: null, listen: () => http.listen(ANYWHERE), close: () => http.close() };
}

async function openQueue(url: string): Promise<Server> {
  const database = openDatabase({ url });
  await migrate(database.maintenance);
  const engine = createEngine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  const first = await createFirstOrgAndKey(database, { home: null });
  const authenticator = new KeyAuthenticator({ database });
  const limiter = new OrgRateLimiter({ database, requestsPerMinute: 100_000_000 });
  const doors = [openQueueDoor({ queueSize: ANY_DEPTH })];
  const http = await buildServer({ engine, doors, authenticator, limiter, version: 'bench' });
  const close = async () => {
    await http.close();
    await authenticator.close();
    await engine.submitter.idle();
    await database.close();
  };
  return { key: first?.key ?? null, listen: () => http.listen(ANYWHERE), close };
}

/** The parts of `millrace up` with default settings, except for limits that a benchmark would reach at once. */
async function openExecution(url: string, { slots = 0, collector }: { slots?: number; collector?: string } = {}): Promise<Server> {
  const environment = {
    DATABASE_URL: url,
    MILLRACE_SERVER_PORT: '0',
    MILLRACE_WORKERS_CONCURRENCY: String(Math.max(1, slots)),
    MILLRACE_LIMITS_QUEUE_SIZE: String(ANY_DEPTH),
    MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '100000000',
    MILLRACE_TELEMETRY_LOG_LEVEL: 'error', // Lines would end up among the figures.
    ...(collector === undefined ? {} : { MILLRACE_TELEMETRY_OTLP_ENDPOINT: collector, MILLRACE_TELEMETRY_TRACE_SAMPLE: '0.01' }),
  };
  const { config } = loadConfig({ environment });
  const out = new Output({ json: false, verbose: false });
  const platform = await openPlatform({ config, out, migrates: true, concurrency: Math.max(1, slots) });
  const first = await createFirstOrgAndKey(platform.database, { home: null });
  const operator = { token: null, file: null, isNew: false };
  const api = await openApi(platform, { config, out, operator });
  if (slots > 0) {
    platform.engine.registry.register({ type: 'noop', handler: () => {} });
    await platform.start();
  }
  const close = async () => {
    await api.close();
    await platform.close(0);
  };
  return { key: first?.key ?? null, listen: () => api.listen(), close };
}

const KINDS = {
  bare: async () => openBare(),
  queue: openQueue,
  execution: (url: string) => openExecution(url),
  running: (url: string, collector?: string) => openExecution(url, { slots: 64, collector }),
};

const [kind, url = '', collector] = process.argv.slice(2) as [keyof typeof KINDS, string?, string?];
const server = await KINDS[kind](url, collector);
const address = await server.listen();
process.once('disconnect', async () => {
  await server.close();
  process.exit(0);
});
process.send?.({ port: Number(new URL(address).port), key: server.key } satisfies Serving);
