import { describe, expect, it } from 'vitest';
import { WorkerWatch } from '../../src/engine/upkeep/worker-watch.ts';
import type { WatchedWorker } from '../../src/ledger/attempts/watch-workers.ts';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const LEASE_MS = 300 * SECOND;

const seen = (changes: Partial<WatchedWorker> = {}): WatchedWorker => ({
  ...{ id: 1, beat: 1, beatMs: 5 * SECOND, isLockFree: false, isLongGone: false },
  ...changes,
});

/** Looks once a second at what `at` says of each second, and returns the seconds at which the worker counts as dead. */
function deaths(seconds: number, at: (second: number) => Partial<WatchedWorker> | 'outage'): number[] {
  const watch = new WorkerWatch();
  const dead: number[] = [];
  for (let second = 0; second <= seconds; second++) {
    const look = at(second);
    if (look === 'outage') watch.restart();
    else watch.observe([seen(look)], HOUR + second * SECOND);
    if (watch.dead().length > 0) dead.push(second);
  }
  return dead;
}

const silent = (changes: { beat?: number; isBeatAhead?: boolean } = {}) =>
  ({ kind: 'silent', beat: 1, beatMs: 5 * SECOND, isBeatAhead: false, ...changes }) as const;

describe('a worker whose lock fell free', () => {
  it('is dead once neither the lock nor a beat came back for two seconds', () => {
    expect(deaths(6, (second) => ({ isLockFree: second >= 3 }))).toEqual([5, 6]);
  });

  it('lives if its lock comes back, or a beat does', () => {
    expect(deaths(6, (second) => ({ isLockFree: second === 3 || second === 4 }))).toEqual([]);
    expect(deaths(6, (second) => ({ isLockFree: true, beat: second }))).toEqual([]);
    expect(deaths(6, (second) => ({ isLockFree: true, beat: Math.min(second, 4) }))).toEqual([6]);
  });

  it('has more time after an outage of the database, in which no worker could send heartbeats', () => {
    const look = (second: number) => (second === 2 ? 'outage' : { isLockFree: second > 2 });
    expect(deaths(14, look)).toEqual([13, 14]);
  });

  it('counts from the first look after a pause that may have hidden an outage', () => {
    const watch = new WorkerWatch();
    watch.observe([seen({ isLockFree: true })], HOUR);
    watch.observe([seen({ isLockFree: true })], HOUR + 60 * SECOND);
    expect(watch.dead()).toEqual([]);
  });
});

describe('a worker that the clock of the database calls silent', () => {
  it('is confirmed when this process missed three of its beats as well', () => {
    const watch = new WorkerWatch();
    for (const second of [0, 5, 10, 14]) watch.observe([seen()], HOUR + second * SECOND);
    expect(watch.confirms(1, silent(), LEASE_MS)).toBe(false);
    watch.observe([seen()], HOUR + 15 * SECOND);
    expect(watch.confirms(1, silent(), LEASE_MS)).toBe(true);
    expect(watch.confirms(1, silent({ beat: 2 }), LEASE_MS)).toBe(false);
  });

  it('is confirmed sooner where the lease is shorter than that', () => {
    const watch = new WorkerWatch();
    watch.observe([seen()], HOUR);
    watch.observe([seen()], HOUR + SECOND);
    expect(watch.confirms(1, silent(), SECOND)).toBe(true);
  });

  it('keeps its whole lease when the clock was set back behind its beat', () => {
    const watch = new WorkerWatch();
    for (let second = 0; second < 300; second += 5) watch.observe([seen()], HOUR + second * SECOND);
    expect(watch.confirms(1, silent({ isBeatAhead: true }), LEASE_MS)).toBe(false);
    watch.observe([seen()], HOUR + 300 * SECOND);
    expect(watch.confirms(1, silent({ isBeatAhead: true }), LEASE_MS)).toBe(true);
  });

  it('for a day is dead after a minute without a beat here', () => {
    expect(deaths(61, () => ({ isLongGone: true }))).toEqual([60, 61]);
  });

  it('needs no confirmation when it stopped or is unknown', () => {
    const watch = new WorkerWatch();
    expect(watch.confirms(1, { kind: 'gone' }, LEASE_MS)).toBe(true);
    expect(watch.confirms(1, { kind: 'stopped', beat: 1 }, LEASE_MS)).toBe(true);
    expect(watch.confirms(1, silent(), LEASE_MS)).toBe(false);
  });
});
