// One of the two servers that bench/http.ts compares: `bare`, or `millrace <database url>`. Says its port, ends with its parent.
import Fastify from 'fastify';
import { PROFILES } from '../src/core/policy.ts';
import { Engine } from '../src/engine/engine.ts';
import { queueDoor } from '../src/http/queue/door.ts';
import { buildServer } from '../src/http/server.ts';
import { KeyAuthenticator } from '../src/http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../src/http/shared/rate-limiter.ts';
import { openDatabase } from '../src/ledger/database.ts';
import { migrate } from '../src/ledger/migrate.ts';
import { createFirstOrgAndKey } from '../src/services/bootstrap.ts';

export type Serving = { port: number; key: string | null };
type Server = { http: Listener; key: string | null; close(): Promise<void> };
type Listener = { listen(options: { port: number; host: string }): Promise<string> };

/** Reads the same body and answers something of the same size. */
function openBare(): Server {
  const http = Fastify({ logger: false });
  http.post('/queue/v1/jobs', async (request, reply) => {
    const { type } = request.body as { type: string };
    const at = new Date().toISOString();
    const job_id = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';
    return reply.code(202).send({ job_id, status: 'ACCEPTED', state: type, created_at: at, scheduled_for: at });
  });
  return { http, key: null, close: () => http.close() };
}

async function openMillrace(url: string): Promise<Server> {
  const database = openDatabase({ url });
  await migrate(database.maintenance);
  const engine = new Engine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  const first = await createFirstOrgAndKey(database, { home: null });
  const authenticator = new KeyAuthenticator({ database });
  const limiter = new OrgRateLimiter({ database, requestsPerMinute: 100_000_000 });
  const http = await buildServer({ engine, doors: [queueDoor], authenticator, limiter, version: 'bench' });
  const close = async () => {
    await http.close();
    await authenticator.close();
    await engine.submitter.idle();
    await database.close();
  };
  return { http, key: first?.key ?? null, close };
}

const [kind, url = ''] = process.argv.slice(2);
const server = kind === 'bare' ? openBare() : await openMillrace(url);
const address = await server.http.listen({ port: 0, host: '127.0.0.1' });
process.once('disconnect', async () => {
  await server.close();
  process.exit(0);
});
process.send?.({ port: Number(new URL(address).port), key: server.key } satisfies Serving);
