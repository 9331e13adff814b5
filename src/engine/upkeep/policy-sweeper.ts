import type { Database } from '../../ledger/driver/database.ts';
import {
  beginPolicySweep,
  FIRST_WINDOW,
  markTransaction,
  policiesInUse,
  policyCandidates,
  removePolicies,
  sinceMark,
} from '../../ledger/upkeep/unused-policies.ts';

const HOUR_MS = 3_600_000;
const MAX_CANDIDATES = 100_000;
const REMOVED_AT_ONCE = 1_000;

export type PolicySweeperOptions = {
  /** A policy that no process has used for new jobs for this long is a candidate. */
  unusedMs?: number;
  /** The pause between choosing candidates and looking at jobs. It is longer than a process remembers a policy: see `PolicyCache`. */
  waitMs?: number;
  everyMs?: number;
  minCandidates?: number;
  window?: number;
};

const DEFAULTS: Required<PolicySweeperOptions> = {
  unusedMs: 48 * HOUR_MS,
  waitMs: 4 * HOUR_MS,
  everyMs: 12 * HOUR_MS,
  minCandidates: 1_000,
  window: 5_000,
};

const LOOK_EVERY_MS = 300_000;
const TRANSACTIONS_EVERY_MS = 5_000;
/** The pause between two windows. A sweep is not urgent and must not slow down the database. */
const WINDOW_EVERY_MS = 200;

/** Candidates that no job has so far, with the time of their last use. */
type Sweep = { readonly unused: Map<number, number> };
type State =
  | { readonly kind: 'idle' }
  | (Sweep & { readonly kind: 'waiting'; readonly sinceMs: number })
  | (Sweep & { readonly kind: 'awaiting_transactions'; readonly txid: string })
  | (Sweep & { readonly kind: 'looking'; readonly after: { orgId: string; seq: number } })
  | (Sweep & { readonly kind: 'removing' });

const IDLE: State = { kind: 'idle' };

/**
 * Removes policies that no job has, in small steps. The order of the steps makes it safe (decision 0026): choose
 * candidates, wait until no process remembers one of them, wait until everything written before can be seen, look at
 * all jobs, remove the rest.
 */
export class PolicySweeper {
  readonly #database: Database;
  readonly #options: Required<PolicySweeperOptions>;
  #state: State = IDLE;

  constructor(database: Database, options: PolicySweeperOptions = {}) {
    this.#database = database;
    this.#options = { ...DEFAULTS, ...options };
  }

  get state(): State['kind'] {
    return this.#state.kind;
  }

  /** Does one step. Returns how long to wait for the next. */
  async round(): Promise<number> {
    const [next, delayMs] = await this.#step(this.#state);
    this.#state = next;
    return delayMs;
  }

  async #step(state: State): Promise<[State, number]> {
    const { maintenance } = this.#database;
    switch (state.kind) {
      case 'idle':
        return this.#begin();
      case 'waiting': {
        const leftMs = state.sinceMs + this.#options.waitMs - performance.now();
        if (leftMs > 0) return [state, Math.min(leftMs, LOOK_EVERY_MS)];
        return [{ kind: 'awaiting_transactions', unused: state.unused, txid: await markTransaction(maintenance) }, 0];
      }
      case 'awaiting_transactions': {
        const { is_settled, is_foreign } = await sinceMark(maintenance, state.txid);
        if (is_foreign) return [IDLE, LOOK_EVERY_MS];
        return is_settled ? [{ kind: 'looking', unused: state.unused, after: FIRST_WINDOW }, 0] : [state, TRANSACTIONS_EVERY_MS];
      }
      case 'looking':
        return this.#look(state);
      case 'removing':
        return this.#remove(state);
    }
  }

  async #begin(): Promise<[State, number]> {
    const { maintenance } = this.#database;
    const { unusedMs } = this.#options;
    if (!(await beginPolicySweep(maintenance, this.#options))) return [IDLE, LOOK_EVERY_MS];
    const unused = new Map(await policyCandidates(maintenance, unusedMs, MAX_CANDIDATES));
    return [{ kind: 'waiting', unused, sinceMs: performance.now() }, 0];
  }

  async #look({ unused, after }: Extract<State, { kind: 'looking' }>): Promise<[State, number]> {
    const found = await policiesInUse(this.#database.maintenance, after, this.#options.window);
    if (found === null) return [{ kind: 'removing', unused }, 0];
    for (const id of found.policyIds) unused.delete(id);
    if (unused.size === 0) return [IDLE, LOOK_EVERY_MS];
    return [{ kind: 'looking', unused, after: found }, WINDOW_EVERY_MS];
  }

  async #remove({ unused }: Sweep): Promise<[State, number]> {
    const batch = [...unused].slice(0, REMOVED_AT_ONCE);
    if (batch.length === 0) return [IDLE, LOOK_EVERY_MS];
    await removePolicies(this.#database.maintenance, batch);
    for (const [id] of batch) unused.delete(id);
    return [{ kind: 'removing', unused }, WINDOW_EVERY_MS];
  }
}
