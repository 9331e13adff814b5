/** What the keepers of the ledger do: stage, release, expire, bury; and time, which passes. For the rescuer see `rescue-commands.ts`. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { buryWorkers } from '../../src/ledger/attempts/find-orphans.ts';
import { declareDead, watchWorkers } from '../../src/ledger/attempts/watch-workers.ts';
import { stopWorker } from '../../src/ledger/attempts/workers.ts';
import { expireJobs } from '../../src/ledger/upkeep/expire-jobs.ts';
import { releaseDependents } from '../../src/ledger/upkeep/release-dependents.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { anyOf, commandOf, pick, workerIds } from './command.ts';
import type { Model } from './model.ts';
import { isHeldBy } from './model-job.ts';
import { beatIn, beatOf, fateOf, takeBack } from './rescue-commands.ts';
import type { System } from './system.ts';

const LIMIT = 1_000;
const nothing = fc.constant({});

export const stage = commandOf({
  name: 'stage',
  given: nothing,
  run: async (_, model, system) => {
    const { staged } = await stageJobs(system.ledger.db.maintenance, { limit: LIMIT, floor: null });
    expect(staged, 'jobs that were staged').toBe(model.stage());
  },
});

/** A failure travels one level of the graph a call, so a drain is several. */
export const release = commandOf({
  name: 'release',
  given: fc.boolean(),
  run: async (drains, model, { ledger }) => {
    do {
      await releaseDependents(ledger.db.maintenance, LIMIT);
      model.release();
    } while (drains && model.news.size > 0);
  },
});

export const expire = commandOf({
  name: 'expire',
  given: nothing,
  run: async (_, model, { ledger }) => {
    const { expired } = await expireJobs(ledger.db.maintenance, LIMIT);
    expect(expired, 'jobs that outlived themselves').toBe(model.expire());
  },
});

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Mostly within leases and past backoffs; at times past the leases, the lifetimes, and rarely a day. */
const SPANS = [1, SECOND, 5 * SECOND, 30 * SECOND, 61 * SECOND, 61 * SECOND, 11 * MINUTE, 61 * MINUTE, 130 * MINUTE, 25 * 60 * MINUTE];

/** The workers of the mask keep beating meanwhile; the others seem dead, until they come back with a beat or a write. */
export const pass = commandOf({
  name: 'pass',
  given: fc.record({
    spanMs: fc.constantFrom(...SPANS),
    beating: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
  }),
  run: async ({ spanMs, beating }, model, system) => {
    model.nowMs += spanMs;
    await system.setClock(model.nowMs);
    for (const [index, workerId] of workerIds(model).entries()) {
      if (beating[index % beating.length]) await beatOf(model, system, workerId);
    }
  },
});

/** A worker stops without giving back, and another takes its place. */
export const replaceWorker = commandOf({
  name: 'replaceWorker',
  given: anyOf,
  isPossible: (model) => model.workers.size < 6,
  run: async (choice, model, system) => {
    const workerId = pick(workerIds(model), choice);
    const worker = model.workers.get(workerId);
    expect(await stopWorker(system.workers, workerId)).toBe(worker?.isStopped === false);
    if (worker !== undefined) worker.isStopped = true;
    await system.addWorker(model);
  },
});

const DAY = 24 * 60 * MINUTE;

export const bury = commandOf({
  name: 'bury',
  given: nothing,
  run: async (_, model, { ledger }) => {
    for (const { id, beat, isLongGone } of await watchWorkers(ledger.db.maintenance)) {
      const worker = model.workers.get(id);
      expect(isLongGone, 'silent for a day').toBe(worker !== undefined && worker.beatAtMs < model.nowMs - DAY);
      expect(await declareDead(ledger.db.maintenance, { id, beat }), 'workers that were given up').toBe(isLongGone);
      if (isLongGone && worker !== undefined) worker.isStopped = true;
    }
    await buryWorkers(ledger.db.maintenance);
  },
});

/** After everybody died: with time alone, whatever can end or wait in line does. Nothing stays with the dead. */
export async function settleDown(model: Model, system: System): Promise<void> {
  for (const spanMs of [DAY, 40 * DAY]) {
    model.nowMs += spanMs;
    await system.setClock(model.nowMs);
    for (const workerId of model.workers.keys())
      await takeBack(model, system, {
        workerId,
        beat: beatIn(model, workerId),
        random: 0,
        taken: model.leases.filter((lease) => lease.workerId === workerId && isHeldBy(lease)).map(fateOf),
      });
    await stageJobs(system.ledger.db.maintenance, { limit: LIMIT, floor: null });
    model.stage();
    await expireJobs(system.ledger.db.maintenance, LIMIT);
    model.expire();
    while (model.news.size > 0) {
      await releaseDependents(system.ledger.db.maintenance, LIMIT);
      model.release();
    }
  }
}
