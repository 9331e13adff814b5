/** How a step of the life-cycle becomes a command of fast-check: done on both sides, then compared. */
import fc from 'fast-check';
import { compareRows } from './compare.ts';
import type { Model } from './model.ts';
import { type GivenLease, isHeldBy, mayRun } from './model-job.ts';
import type { System } from './system.ts';

export type LedgerCommand = fc.AsyncCommand<Model, System>;

export type Step<Given> = {
  name: string;
  given: fc.Arbitrary<Given>;
  /** Whether there is anything to do it with. */
  isPossible?: (model: Model) => boolean;
  run: (given: Given, model: Model, system: System) => Promise<void>;
};

/** What ran so far, for the account that a long run gives: the commands, and the edges of the state machine they walked. */
export const performed = { commands: 0, edges: new Set<string>() };

export function commandOf<Given>({ name, given, isPossible, run }: Step<Given>): fc.Arbitrary<LedgerCommand> {
  return given.map((values) => ({
    check: (model) => isPossible?.(model as Model) ?? true,
    run: async (model, system) => {
      performed.commands++;
      await run(values, model, system);
      await compareRows(model, system);
    },
    toString: () => `${name}(${JSON.stringify(values)})`,
  }));
}

/** A choice that stays good however the list grows or shrinks. */
export const anyOf = fc.nat({ max: 10_000 });

export function pick<T>(list: readonly T[], choice: number): T {
  const chosen = list[choice % list.length];
  if (chosen === undefined) throw new Error('there is nothing to pick from');
  return chosen;
}

export const workerIds = (model: Model): number[] => [...model.workers.keys()];

export const hasJobs = (model: Model): boolean => model.jobs.length > 0;

export const hasLeases = (model: Model): boolean => model.leases.length > 0;

/** Which lease a worker writes with: one that still stands, or any it ever had, as a zombie would. */
export type LeaseChoice = { choice: number; zombie: boolean };

export const leaseChoice: fc.Arbitrary<LeaseChoice> = fc.record({
  choice: anyOf,
  zombie: fc.constantFrom(false, false, false, true, true),
});

/** Of zombies those come first that are hardest to tell: their worker holds the very job again, by a newer lease. */
export function pickLease(model: Model, { choice, zombie }: LeaseChoice, workerId?: number): GivenLease | null {
  const own = ownLeases(model, workerId);
  const fitting = own.filter((lease) => isHeldBy(lease) !== zombie);
  const reborn = zombie ? fitting.filter(({ job, workerId: holder }) => job.holder === holder) : [];
  return pickFirst([reborn, fitting, own], choice);
}

/** The same, but first of all leases of jobs that may run before their start is written. */
export function pickAhead(model: Model, { choice, zombie }: LeaseChoice, workerId?: number): GivenLease | null {
  const own = ownLeases(model, workerId);
  const ahead = own.filter((lease) => mayRun(lease.job) && isHeldBy(lease) !== zombie);
  const reborn = zombie ? ahead.filter(({ job, workerId: holder }) => job.holder === holder) : [];
  return pickFirst([reborn, ahead], choice) ?? pickLease(model, { choice, zombie }, workerId);
}

const ownLeases = (model: Model, workerId?: number): GivenLease[] =>
  model.leases.filter((lease) => workerId === undefined || lease.workerId === workerId);

function pickFirst(lists: readonly GivenLease[][], choice: number): GivenLease | null {
  const candidates = lists.find((leases) => leases.length > 0);
  return candidates === undefined ? null : pick(candidates, choice);
}
