// node chaos/dead-letters.ts [--jobs 10000] [--rate 200]: jobs die of three causes. The program checks that they are three groups, then
// fixes the largest one forward: first with a wrong patch, which has to halt by itself after its canary, then with the right one, while the
// server is killed with kill -9 again and again. Fails if the report of an operation does not list each job once, if a job ran twice or
// never, if the rate was exceeded, or if the ledger is not consistent.
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Database, openDatabase } from '../src/ledger/driver/database.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { createPostgres } from './postgres-server.ts';
import { Program } from './program.ts';

const { values } = parseArgs({ options: { jobs: { type: 'string', default: '10000' }, rate: { type: 'string', default: '200' } } });
const JOBS = Number(values.jobs);
const RATE = Number(values.rate);
const CANARY = 10;
const KILLS = 3;
const HANDLERS = fileURLToPath(new URL('./dead-letter-handlers.ts', import.meta.url));

const say = (line: string) => process.stdout.write(`${line}\n`);
const failures: string[] = [];
const check = (isTrue: boolean, claim: string) => {
  say(`${isTrue ? 'ok  ' : 'FAIL'} ${claim}`);
  if (!isTrue) failures.push(claim);
};

// biome-ignore lint/suspicious/noExplicitAny: answers as they come
type Body = any;

const postgres = await createPostgres();
const program = new Program(postgres.url, {}, undefined, [HANDLERS]);
const db: Database = openDatabase({ url: postgres.url });

/** Repeats a request while the server is down. Only for requests that may be repeated. A refused request ends the run. */
async function call(method: 'GET' | 'POST', path: string, body?: unknown): Promise<Body> {
  let refused: string | null = null;
  for (;;) {
    try {
      const response = await fetch(`${program.url}/queue/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${program.key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      if (response.status < 400) return await response.json();
      if (response.status < 500) refused = await response.text();
    } catch {}
    if (refused !== null) throw new Error(`${method} ${path} was refused: ${refused}`);
    await delay(200);
  }
}

const rowsOf = async (text: string): Promise<Body[]> => (await db.api.query(text)).rows;

/** 6 of 10 have a wrong currency, 3 no street, 1 a provider that is down. A kill of the server costs a job one of its attempts. */
function orderOf(n: number): object {
  const kind = n % 10;
  const wrong = kind < 6 ? { currency: kind % 2 === 0 ? 'EURO' : 'Euros' } : kind < 9 ? { address: {} } : { provider: 'down' };
  return { type: 'order', payload: { n, ...wrong }, max_attempts: 2, backoff: { strategy: 'CONSTANT', initial_delay: '1ms' } };
}

async function submitAll(): Promise<void> {
  for (let from = 0; from < JOBS; from += 1_000) {
    const jobs = Array.from({ length: Math.min(1_000, JOBS - from) }, (_, index) => orderOf(from + index));
    await call('POST', '/jobs/batch', { jobs });
  }
  for (;;) {
    const [{ dead }] = await rowsOf(`SELECT count(*)::int4 AS dead FROM millrace.dead_letters`);
    if (dead === JOBS) return;
    await delay(200);
  }
}

/** A machine that is busy may need more time than the program waits for the database. */
async function restart(): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await program.start();
    } catch (error) {
      if (tries === 10) throw error;
      await delay(1_000);
    }
  }
}

async function untilState(id: string, ...states: string[]): Promise<Body> {
  for (;;) {
    const operation = await call('GET', `/operations/${id}`);
    if (states.includes(operation.state)) return operation;
    await delay(200);
  }
}

async function itemsOf(id: string): Promise<Body[]> {
  const items: Body[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: Body = await call(
      'GET',
      `/operations/${id}/items?limit=1000${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    items.push(...page.items);
    cursor = page.next_cursor;
    if (cursor === null) return items;
  }
}

try {
  await program.start();
  await submitAll();
  say(`${JOBS} jobs are dead`);
  const startedMs = performance.now();
  const { items: groups } = await call('GET', '/deadletter/groups');
  say(`groups took ${Math.round(performance.now() - startedMs)} ms`);
  const sizes = groups.map(({ count }: Body) => count);
  check(groups.length === 3, `three groups: ${sizes.join(', ')}`);
  const [group] = groups;

  const wrongPatch = [{ op: 'add', path: '/fixed', value: true }];
  const request = { action: 'fix_forward', filter: { fingerprint: group.fingerprint }, canary: CANARY, rate: RATE };
  const wrong = await call('POST', '/operations', { ...request, patch: wrongPatch });
  const halted = await untilState(wrong.operation_id, 'halted');
  check(
    halted.sent === CANARY && halted.failed === CANARY,
    `the wrong patch halted by itself after ${halted.sent} jobs: ${halted.halted_because}`,
  );
  await call('POST', `/operations/${wrong.operation_id}/stop`);

  const patch = [{ op: 'replace', path: '/currency', value: 'EUR' }];
  const right = await call('POST', '/operations', { ...request, patch });
  check(
    right.matching === group.count,
    `the right patch matches ${right.matching} jobs, with the ${CANARY} that died in the place of the first`,
  );
  const sentMs = performance.now();
  let killed = 0;
  for (const share of Array.from({ length: KILLS }, (_, index) => (index + 1) / (KILLS + 1))) {
    for (;;) {
      const [{ sent, finished_at }] = await rowsOf(`SELECT sent, finished_at FROM millrace.operations WHERE id = '${right.operation_id}'`);
      if (finished_at !== null || sent >= share * right.matching) break;
      await delay(20);
    }
    await program.kill();
    killed++;
    await restart();
  }
  const done = await untilState(right.operation_id, 'completed', 'halted');
  const seconds = (performance.now() - sentMs) / 1_000;
  say(`${right.matching} jobs in ${seconds.toFixed(1)} s with ${killed} kills (${(right.matching / seconds).toFixed(0)} a second)`);
  check(
    done.state === 'completed' && done.succeeded === right.matching,
    `all of them succeeded: ${JSON.stringify({ state: done.state, succeeded: done.succeeded, failed: done.failed, skipped: done.skipped })}`,
  );

  for (const [name, id, count] of [
    ['wrong', wrong.operation_id, group.count],
    ['right', right.operation_id, right.matching],
  ] as const) {
    const items = await itemsOf(id);
    const jobs = new Set(items.map(({ job_id }) => job_id));
    check(items.length === count && jobs.size === count, `the report of the ${name} operation lists each of its ${count} jobs once`);
    check(
      items.every(({ result }) => result !== 'waiting' && result !== 'sent'),
      `each job of the ${name} operation has a result`,
    );
  }
  const [twice] = await rowsOf(
    `SELECT count(*)::int4 AS jobs FROM (SELECT replaces_id FROM millrace.jobs WHERE replaces_id IS NOT NULL GROUP BY replaces_id HAVING count(*) > 1) t`,
  );
  check(twice.jobs === 0, 'no dead job has two successors');
  const [made] = await rowsOf(`SELECT count(*)::int4 AS jobs FROM millrace.jobs WHERE replaces_id IS NOT NULL`);
  check(made.jobs === group.count + CANARY, `${made.jobs} jobs were submitted in the place of dead ones`);
  const [fast] =
    await rowsOf(`SELECT max(n)::int4 AS jobs FROM (SELECT count(*) OVER (ORDER BY sent_at RANGE BETWEEN CURRENT ROW AND interval '1 second' FOLLOWING) AS n
    FROM millrace.operation_items WHERE operation_id = '${right.operation_id}') t`);
  check(fast.jobs <= RATE * 1.15 + 1, `at most ${fast.jobs} jobs were sent within any second, with a rate of ${RATE}`);
  const left = (await call('GET', '/deadletter/groups')).items;
  check(left.length === 2, `two groups are left: ${left.map(({ count }: Body) => count).join(', ')}`);
  const broken = (await checkInvariants(db.maintenance)).slice(0, 5);
  check(broken.length === 0, `the ledger is consistent${broken.length === 0 ? '' : `: ${JSON.stringify(broken)}`}`);
} finally {
  await program.kill();
  await db.close();
  await postgres.remove();
}
process.exitCode = failures.length === 0 ? 0 : 1;
