// node chaos/webhook-kill.ts [--kills 20] [--jobs 100]: repeatedly kills the server with kill -9 while it delivers the events of
// its jobs, five for each job, and restarts it. Fails unless every event has arrived under one id and the ledger is consistent.
import { parseArgs } from 'node:util';
import pg from 'pg';
import { replaceClock } from '../src/ledger/driver/clock.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { openReceiver, type Receiver } from '../src/simulator/webhook-receiver.ts';
import { createPostgres } from './postgres-server.ts';
import { Program } from './program.ts';

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '20' }, jobs: { type: 'string', default: '100' } },
});
const kills = Number(values.kills);
const jobs = Number(values.jobs);

const EVENTS_OF_A_JOB = 5;
/** The lease of a delivery: without moving the clock every kill would take as long. */
const LEASE_MS = 30_000;

const SETTINGS = {
  MILLRACE_SIMULATION_TIME_SCALE: '0.001',
  MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: '1000000',
  MILLRACE_WEBHOOKS_BACKOFF_BASE: '10ms',
  MILLRACE_WEBHOOKS_BACKOFF_MAX: '50ms',
  MILLRACE_WEBHOOKS_HOST_RATE: '1000000',
};

async function moveClock(url: string, ms: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await replaceClock(client, (now) => `${now} + interval '${ms} milliseconds'`).finally(() => client.end());
}

type Call = { key?: string; body?: unknown };

async function post(program: Program, path: string, { key, body }: Call = {}): Promise<Record<string, string>> {
  const response = await fetch(`${program.url}/v1${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body ?? {}),
  });
  const answer = (await response.json()) as Record<string, string>;
  if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer;
}

async function submitAll(program: Program, receiver: Receiver): Promise<void> {
  const { client_id } = await post(program, '/clients');
  const { api_key: key } = await post(program, `/clients/${client_id}/keys`);
  await post(program, '/webhooks', { key, body: { url: receiver.url('slow?ms=5'), events: ['*'] } });
  const body = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' };
  for (let job = 0; job < jobs; job++) await post(program, '/jobs', { key, body });
}

const eventIdOf = (body: string): string => JSON.parse(body).data.event_id;

/** The ids under which each event arrived. */
function messagesOf(receiver: Receiver): Map<string, Set<string | null>> {
  const messages = new Map<string, Set<string | null>>();
  for (const { body, messageId } of receiver.received()) {
    const id = eventIdOf(body);
    messages.set(id, (messages.get(id) ?? new Set()).add(messageId));
  }
  return messages;
}

const postgres = await createPostgres();
const receiver = await openReceiver();
const place = new URL(receiver.url('ok')).host;
const program = new Program(postgres.url, { ...SETTINGS, MILLRACE_EGRESS_TARGETS: place });
try {
  await program.start();
  await submitAll(program, receiver);
  const wanted = jobs * EVENTS_OF_A_JOB;
  for (let kill = 1; kill <= kills; kill++) {
    // Spread over all of the deliveries.
    const share = Math.floor((wanted * kill) / (kills + 1));
    await receiver.until(() => messagesOf(receiver).size >= share);
    await program.kill();
    await moveClock(postgres.url, kill * (LEASE_MS + 1_000));
    await program.start();
  }
  await receiver.until(() => messagesOf(receiver).size >= wanted);
  const messages = messagesOf(receiver);
  const doubled = [...messages.values()].filter((ids) => ids.size > 1).length;
  const database = openDatabase({ url: postgres.url });
  const violations = await checkInvariants(database.maintenance).finally(() => database.close());
  const again = receiver.received().length - messages.size;
  console.log(
    `${kills} kills, ${messages.size} of ${wanted} events arrived, ${again} of them more than once, ` +
      `${doubled} under two ids, ${violations.length} violations`,
  );
  for (const violation of violations) console.log(violation);
  process.exitCode = messages.size === wanted && doubled === 0 && violations.length === 0 ? 0 : 1;
} finally {
  await program.kill();
  await receiver.close();
  await postgres.remove();
}
