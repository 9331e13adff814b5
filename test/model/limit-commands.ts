/** Jobs with a limit, and the granter. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { grantLimited } from '../../src/ledger/upkeep/grant-limited.ts';
import { delayOf, prepare, priorityOf, typeOf, UNTIED } from './caller-commands.ts';
import { anyOf, commandOf, pick } from './command.ts';
import type { Model } from './model.ts';
import type { Grant, ModelLimit } from './model-job.ts';

const LIMITS: readonly ModelLimit[] = [
  { key: 'one', concurrency: 1, rate: null },
  { key: 'two', concurrency: 2, rate: null },
  { key: 'rare', concurrency: null, rate: { count: 2, perMs: 60_000 } },
  { key: 'both', concurrency: 1, rate: { count: 2, perMs: 5_000 } },
];

export const submitLimited = commandOf({
  name: 'submitLimited',
  given: fc.record({ type: typeOf, priority: priorityOf, delayMs: delayOf, limit: anyOf }),
  run: async ({ limit: choice, ...given }, model, system) => {
    const limit = pick(LIMITS, choice);
    const { entry, submitted } = await prepare(system, { ...given, payload: {}, limit }, UNTIED);
    const [written] = await system.writer.write([entry]);
    expect(written).toMatchObject(model.submit(submitted));
  },
});

export const grant = commandOf({
  name: 'grant',
  given: fc.record({ limit: anyOf, most: fc.integer({ min: 1, max: 3 }) }),
  isPossible: ({ jobs }) => jobs.some(({ limit }) => limit !== null),
  run: async ({ limit: choice, most }, model, { ledger, limitIds }) => {
    const limit = pick([...limitIds.keys()], choice);
    const [looked] = await grantLimited(ledger.db.maintenance, [limitIds.get(limit) as number], most);
    expect(looked, 'grants of a limit').toMatchObject({ granted: grantIn(model, limit, most), isHeld: false });
  },
});

/** Lets jobs of a limit start, as many as there is room for. A job that no worker could claim would keep its slot. */
function grantIn(model: Model, limit: ModelLimit, most: number): number {
  const grants = [...model.grants].filter((each) => each.limit === limit);
  const kept = grants.filter((each) => isKept(model, each));
  for (const each of grants) if (!kept.includes(each)) model.grants.delete(each);
  if ([...model.workers.values()].every(({ isStopped }) => isStopped)) return 0;
  const running = kept.filter(({ isOver }) => !isOver).length;
  const occupied = kept.filter((each) => occupiesSlot(model, each)).length;
  const { concurrency, rate } = limit;
  const room = Math.min(most, (concurrency ?? Number.POSITIVE_INFINITY) - running, (rate?.count ?? Number.POSITIVE_INFINITY) - occupied);
  const waiting = [...model.limited].filter((job) => job.limit === limit);
  const granted = waiting.toSorted((a, b) => a.priority - b.priority || a.order - b.order).slice(0, Math.max(0, room));
  for (const job of granted) {
    model.limited.delete(job);
    model.line.add(job);
    model.grants.add({ limit, job, leaseSeq: job.leaseSeq, atMs: model.nowMs, startedAtMs: null, isOver: false });
  }
  return granted.length;
}

/** Looks what became of the job since the grant. */
function isKept(model: Model, grant: Grant): boolean {
  const { job, isOver } = grant;
  if (!isOver) grant.startedAtMs ??= startOf(grant);
  const isInRun = (job.state === 'running' && !job.held) || (job.state === 'scheduled' && !model.limited.has(job));
  grant.isOver = isOver || !isInRun;
  return !grant.isOver || (grant.startedAtMs !== null && occupiesSlot(model, grant));
}

/** The time of a late start may be before the grant, so the history is read from a minute earlier on. */
function startOf({ job, leaseSeq, atMs }: Grant): number | null {
  const starts = job.history.filter((entry) => entry.to === 'running');
  if ((starts.at(-1)?.leaseSeq ?? 0) <= leaseSeq) return null;
  const known = [
    ...starts.filter((entry) => entry.atMs > atMs - 60_000).map((entry) => entry.atMs),
    ...(job.startedAtMs === null ? [] : [job.startedAtMs]),
  ];
  return known.length === 0 ? (job.history.at(-1)?.atMs ?? null) : Math.max(...known);
}

/** A slot of the rate is occupied from the grant until its time after the start, and 10 ms more. */
function occupiesSlot({ nowMs }: Model, { limit: { rate }, startedAtMs }: Grant): boolean {
  return rate !== null && (startedAtMs === null || startedAtMs + rate.perMs + 10 > nowMs);
}
