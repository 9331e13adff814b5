// node chaos/held-locks.ts [--seconds 2.5] [--only <lock>]: holds each kind of lock that a user's transaction can take, one after the other, and
// measures how long every loop and operation of others waits meanwhile. Prints the slowest wait of each beyond its time without a
// lock, and fails when one is longer than 250 ms. The machine column shows what the machine delays by itself.
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { textTable } from '../src/cli/text-table.ts';
import { checkInvariants } from '../src/ledger/upkeep/invariants.ts';
import { LOCK_KINDS, type LockKind } from './lock-kinds.ts';
import { OPERATIONS, type Operation } from './lock-operations.ts';
import { nowMs, Stage } from './lock-stage.ts';
import { createPostgres } from './postgres-server.ts';

const LIMIT_MS = 250;
const PAUSE_MS = 100;
/** How long after the release an operation may take before it counts as one that never ended. */
const PATIENCE_MS = 10_000;
/** A machine that delays a timer or a commit for so long cannot show a wait of 250 ms. */
const NOISE_MS = 150;
const MAX_TRIES = 3;

/** `isSeen`: a probe ended while the lock was held. Without one the operation waited for another one, whose wait is shown. */
type Wait = { ms: number; fault: string | null; isSeen: boolean };
type Row = ReadonlyMap<Operation, Wait>;

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '2.5' }, only: { type: 'string' } } });
const holdMs = Number(values.seconds) * 1_000;
const startedMs = nowMs();
const say = (line: string) => process.stderr.write(`${((nowMs() - startedMs) / 1_000).toFixed(0)} s: ${line}\n`);

const longer = (one: Wait, other: Wait): Wait => ({
  ms: Math.max(one.ms, other.ms),
  fault: one.fault ?? other.fault,
  isSeen: one.isSeen || other.isSeen,
});

async function probe(stage: Stage, operation: Operation, signal: AbortSignal): Promise<Wait> {
  const askedMs = nowMs();
  try {
    const ms = Math.max(0, await operation.probe(stage));
    return { ms, fault: null, isSeen: !signal.aborted };
  } catch (error) {
    const fault = error instanceof Error ? error.message : String(error);
    return { ms: nowMs() - askedMs, fault, isSeen: true };
  }
}

/** Repeats the operation until `signal` is aborted, and keeps the slowest wait. A probe that never ends counts until patience does. */
function watch(stage: Stage, operation: Operation, signal: AbortSignal) {
  let slowest: Wait = { ms: 0, fault: null, isSeen: false };
  let askedMs: number | null = null;
  const ended = (async () => {
    do {
      askedMs = nowMs();
      slowest = longer(slowest, await probe(stage, operation, signal));
      askedMs = null;
      await delay(PAUSE_MS);
    } while (!signal.aborted && operation.once !== true);
  })();
  const result = (): Wait =>
    askedMs === null ? slowest : longer(slowest, { ms: nowMs() - askedMs, fault: 'it never ended', isSeen: true });
  return { ended, result };
}

async function measure(stage: Stage, lock: LockKind | null): Promise<Row> {
  await lock?.prepare?.(stage);
  await stage.replenish();
  const release = await lock?.hold(stage);
  const stopping = new AbortController();
  const watches = OPERATIONS.map((operation) => watch(stage, operation, stopping.signal));
  await delay(holdMs);
  stopping.abort();
  await release?.();
  await Promise.race([Promise.all(watches.map(({ ended }) => ended)), delay(PATIENCE_MS)]);
  return new Map(OPERATIONS.map((operation, index) => [operation, watches[index]?.result() as Wait]));
}

const machineMs = (row: Row): number => row.get(OPERATIONS.at(-1) as Operation)?.ms ?? 0;

/** Again when the machine was busy with something else. */
async function measureBaseline(stage: Stage): Promise<Row> {
  for (let tries = 1; ; tries++) {
    const row = await measure(stage, null);
    if (machineMs(row) <= NOISE_MS || tries === MAX_TRIES) return row;
    say(`the machine paused for ${machineMs(row).toFixed(0)} ms: once more ...`);
  }
}

/** The better of two waits of one operation. */
function shorter(one: Wait, other: Wait): Wait {
  const isOther = (one.fault === null) === (other.fault === null) ? other.ms < one.ms : other.fault === null;
  return { ...(isOther ? other : one), isSeen: one.isSeen || other.isSeen };
}

/**
 * A wait for a lock comes again, a pause of the machine does not. Where a wait is too long the lock is held once more, and the shorter wait
 * counts; a third time when the machine paused again.
 */
async function measureLock(stage: Stage, lock: LockKind, baseline: Row): Promise<Row> {
  say(`${lock.name} ...`);
  let row = await measure(stage, lock);
  const hasMissed = () => [...row].some(([operation, wait]) => isMissed(operation, wait, baseline));
  for (let tries = 2; tries <= MAX_TRIES && hasMissed(); tries++) {
    say(`${lock.name}, once more ...`);
    const again = await measure(stage, lock);
    row = new Map([...row].map(([operation, wait]) => [operation, shorter(wait, again.get(operation) as Wait)]));
    if (machineMs(again) <= NOISE_MS) break;
  }
  return row;
}

function beyond(operation: Operation, wait: Wait, baseline: Row): number {
  const allowedMs = Math.max(baseline.get(operation)?.ms ?? 0, operation.naturalMs ?? 0);
  return Math.max(0, Math.round(wait.ms - allowedMs));
}

const isMissed = (operation: Operation, wait: Wait, baseline: Row): boolean =>
  operation.isInformative !== true && (beyond(operation, wait, baseline) > LIMIT_MS || wait.fault !== null);

function printTable(rows: readonly (readonly [string, Row])[], baseline: Row): number {
  const missed: string[] = [];
  const cells = rows.map(([name, row]) => [
    name,
    ...[...row].map(([operation, wait]) => {
      const extraMs = beyond(operation, wait, baseline);
      if (!isMissed(operation, wait, baseline)) return wait.isSeen || extraMs > LIMIT_MS ? String(extraMs) : '-';
      missed.push(`${name} / ${operation.name}: ${extraMs} ms${wait.fault === null ? '' : `, ${wait.fault}`}`);
      return `${extraMs}${wait.fault === null ? '' : '!'} <<`;
    }),
  ]);
  const undisturbed = ['(ms without a lock)', ...[...baseline.values()].map(({ ms }) => ms.toFixed(0))];
  const head = ['lock held', ...OPERATIONS.map((operation) => operation.head)];
  for (const line of textTable(head, [undisturbed, ...cells])) console.log(line);
  console.log(`The slowest wait in ms beyond the one without a lock. <<: longer than ${LIMIT_MS} ms. !: it failed. -: not reached.`);
  for (const line of missed) console.log(`MISSED ${line}`);
  return missed.length;
}

function chosen(): readonly LockKind[] {
  const { only } = values;
  const kinds = only === undefined ? LOCK_KINDS : LOCK_KINDS.filter(({ name }) => name.includes(only));
  if (kinds.length > 0) return kinds;
  throw new Error(`No lock has "${only}" in its name. There are: ${LOCK_KINDS.map(({ name }) => name).join('; ')}`);
}

async function run(stage: Stage): Promise<boolean> {
  say('without a lock, to warm up ...');
  await measure(stage, null);
  say('without a lock ...');
  const baseline = await measureBaseline(stage);
  const rows: [string, Row][] = [];
  for (const lock of kinds) rows.push([lock.name, await measureLock(stage, lock, baseline)]);
  const missed = printTable(rows, baseline);
  const violations = await checkInvariants(stage.database.maintenance);
  for (const { invariant, jobId, what } of violations) console.log(`VIOLATED ${invariant} ${jobId}: ${what}`);
  console.log(`${rows.length * OPERATIONS.length} cells, ${missed} missed, ${violations.length} violated invariants`);
  return missed === 0 && violations.length === 0;
}

const kinds = chosen();
const postgres = await createPostgres();
let stage: Stage | null = null;
const cleanUp = async () => {
  await stage?.close();
  await postgres.remove();
};
const onSignal = () => void cleanUp().finally(() => process.exit(1));
process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
try {
  stage = await Stage.open(postgres.url);
  process.exitCode = (await run(stage)) ? 0 : 1;
} finally {
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  await cleanUp();
}
