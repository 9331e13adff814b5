import type pg from 'pg';
import { PAUSES, pauseMs } from '../../core/backoff.ts';
import type { AuditAction } from '../../core/governance/audit-action.ts';
import { paceOf, whyHalt } from '../../core/governance/operation.ts';
import { raiseAlerts } from '../../ledger/alerts/raise-alert.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { inSavepoint } from '../../ledger/driver/savepoint.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import { listJobs } from '../../ledger/operations/list-jobs.ts';
import {
  followItems,
  type Item,
  type ItemChange,
  type LockedOperation,
  lockDueOperation,
  nextStepMs,
  openItems,
  type Stepped,
  skipWaiting,
  takeItems,
  writeItems,
  writeStep,
} from '../../ledger/operations/step-operation.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';
import { type Moves, reportMoves } from '../report-moves.ts';
import { actOn, failed, outcomeOf, type StepParts } from './operation-steps.ts';
import { undoItem } from './undo-item.ts';

/** Jobs that one step acts on, and for how long. They become ready together when it commits, so a long step would exceed the rate. */
const ACTS = 100;
const STEP_MS = 50;
const FOLLOWED = 500;
const SKIPPED = 5_000;
/** The shortest pause between two rounds. */
const SEND_MS = 20;
/** Between two looks at the outcomes of jobs that were sent. */
const FOLLOW_MS = 200;
const IDLE_MS = 1_000;
const NOTHING_LEFT_MS = 60_000;
/** A pass over many operations must not keep the loop from ending. */
const STEPS_PER_ROUND = 50;

const NONE = { sent: 0, succeeded: 0, failed: 0, skipped: 0, undone: 0 };

/**
 * Carries out operations step by step. A step is one transaction that has locked the operation: it acts on some jobs, looks at the outcomes
 * of others, and writes both with the new counts. So a process that dies loses no step and repeats none, and processes take turns.
 */
export class OperationRunner extends LoopService {
  readonly #database: Database;
  readonly #parts: StepParts;
  /** By operation, the last item that another transaction held: the next step begins after it. */
  readonly #held = new Map<string, number>();
  /** By operation, its undo as far as this process knows it. Absent: another process began the pass. */
  readonly #undos = new Map<string, UndoPass>();
  readonly #events: EventHub;

  constructor({ database, events, ...parts }: StepParts & { database: Database; events: EventHub }) {
    super({ name: 'operation runner', events });
    this.#database = database;
    this.#events = events;
    this.#parts = parts;
  }

  async round(): Promise<number> {
    const stepped: string[] = [];
    while (stepped.length < STEPS_PER_ROUND) {
      const moves: Moves = [];
      const id = await inTransaction(this.#database.maintenance, (client) => this.#stepNext(client, stepped, moves));
      reportMoves(this.#events, moves);
      if (id === null) break;
      stepped.push(id);
    }
    const waitMs = await nextStepMs(this.#database.maintenance);
    return waitMs === null ? IDLE_MS : Math.min(IDLE_MS, Math.max(SEND_MS / 2, waitMs));
  }

  async #stepNext(client: pg.PoolClient, except: readonly string[], moves: Moves): Promise<string | null> {
    const operation = await lockDueOperation(client, except);
    if (operation === null) return null;
    const isUndoing = operation.undoAskedAt !== null && operation.undoneAt === null;
    await writeStep(client, isUndoing ? await this.#undo(client, operation, moves) : await this.#step(client, operation, moves));
    return operation.id;
  }

  async #step(client: pg.PoolClient, operation: LockedOperation, moves: Moves): Promise<Stepped> {
    const isActive = operation.state === 'canary' || operation.state === 'running';
    if (isActive && !operation.isListed) {
      await listJobs(client, operation);
      return { ...unchanged(operation), waitMs: 0 };
    }
    const followed = await this.#follow(client, operation);
    const counts = add(NONE, followed.changes);
    const open = await openItems(client, operation);
    const state = open.canary || operation.state !== 'canary' ? operation.state : 'running';
    const base = { ...unchanged(operation), sweptN: followed.sweptN, added: counts };
    if (isActive) {
      if (!open.waiting && !open.sent) return { ...base, state: 'completed', isFinished: true };
      const because = this.#whyHalt(operation, counts, !open.canary);
      if (because !== null) return this.#halt(client, operation, { ...base, because });
      return this.#send(client, { operation, base: { ...base, state }, hasSent: open.sent, moves });
    }
    if (operation.state === 'stopped' && open.waiting) {
      const skipped = await skipWaiting(client, operation.id, { limit: SKIPPED, error: 'The operation was stopped.' });
      return { ...base, added: { ...counts, skipped: counts.skipped + skipped }, waitMs: 0 };
    }
    if (operation.state === 'stopped' && !open.sent) return { ...base, isFinished: true };
    return { ...base, waitMs: open.sent ? FOLLOW_MS : NOTHING_LEFT_MS };
  }

  /** Looks at the next jobs that were sent, and begins again at the first after the last. */
  async #follow(client: pg.PoolClient, operation: LockedOperation): Promise<{ changes: ItemChange[]; sweptN: number }> {
    const items = await followItems(client, operation, FOLLOWED);
    const changes = items.map((item) => outcomeOf(operation.action, item)).filter((change) => change !== null);
    await writeItems(client, operation.id, changes);
    return { changes, sweptN: items.length < FOLLOWED ? 0 : (items.at(-1)?.n ?? 0) };
  }

  #whyHalt(operation: LockedOperation, added: Counts, isCanaryOver: boolean): string | null {
    const { succeeded, failed: failures, counted, halt, state } = operation;
    const outcomes = {
      succeeded: succeeded + added.succeeded - counted.succeeded,
      failed: failures + added.failed - counted.failed,
    };
    return whyHalt(halt, outcomes, state === 'canary' && isCanaryOver);
  }

  async #halt(client: pg.PoolClient, operation: LockedOperation, { because, ...base }: Stepped & { because: string }): Promise<Stepped> {
    const { id, orgId, projectId, action } = operation;
    const message = `The operation ${id} (${action}) halted: ${because} Look at its failed items, then resume or stop it.`;
    await raiseAlerts(client, [{ kind: 'operation_halted', severity: 'error', orgId, subject: `operation:${id}`, message }]);
    const requester = { actor: 'system:operation runner', requestId: null };
    const details = { operation_id: id, action, halted_because: because };
    await recordActions(client, [{ orgId, projectId, event: 'operation.halted', requester, details }]);
    return { ...base, state: 'halted', haltedBecause: because, waitMs: FOLLOW_MS };
  }

  async #send(client: pg.PoolClient, { operation, base, hasSent, moves }: Sending): Promise<Stepped> {
    const isCanary = base.state === 'canary';
    const after = this.#held.get(operation.id) ?? 0;
    const waiting = await takeItems(client, operation.id, { result: 'waiting', afterN: after, limit: ACTS });
    const items = isCanary ? waiting.filter(({ n }) => n <= operation.canary) : waiting;
    const { tried, changes, paidUntilMs, nowMs } = await this.#sendPaced(client, { operation, items, moves });
    this.#noteHeld(operation.id, tried, changes);
    await writeItems(client, operation.id, changes);
    const sent = changes.filter(({ result }) => result !== 'skipped').length;
    const added = { ...add(base.added, changes), sent };
    if (items.length === 0) return { ...base, added, paidUntilMs: nowMs, waitMs: FOLLOW_MS };
    const pausesMs = Math.max(0, Math.min(IDLE_MS, paidUntilMs + 1_000 / operation.rate - nowMs));
    return { ...base, added, paidUntilMs, waitMs: hasSent || sent > 0 ? Math.min(pausesMs, FOLLOW_MS) : pausesMs };
  }

  /** Acts on items, as many as the rate allows by now. Time passes meanwhile, so that a slow database does not lower the rate. */
  async #sendPaced(client: pg.PoolClient, { operation, items, moves }: Pick<Sending, 'operation' | 'moves'> & { items: readonly Item[] }) {
    const { rate, nowMs: startedMs } = operation;
    const began = performance.now();
    const nowMs = () => startedMs + performance.now() - began;
    const changes: ItemChange[] = [];
    const tried: Item[] = [];
    const actions: AuditAction[] = [];
    let { paidUntilMs } = operation;
    for (const item of items) {
      const pace = paceOf({ nowMs: nowMs(), paidUntilMs, rate, atMost: 1 });
      if (pace.count === 0 || nowMs() - startedMs > STEP_MS) break;
      ({ paidUntilMs } = pace);
      tried.push(item);
      const change = await this.#tryOn(client, { operation, item, actions, moves });
      if (change !== null) changes.push(change);
    }
    await recordActions(client, actions);
    return { tried, changes, paidUntilMs, nowMs: nowMs() };
  }

  #noteHeld(id: string, items: readonly Item[], changes: readonly ItemChange[]): void {
    if (items.length > 0 && changes.length < items.length) this.#held.set(id, items.at(-1)?.n ?? 0);
    else if (items.length === 0 || !this.#held.has(id)) this.#held.delete(id);
    else this.#held.set(id, items.at(-1)?.n ?? 0);
  }

  /** An error concerns one job only: what it wrote is rolled back, and the others go on. */
  async #tryOn(client: pg.PoolClient, act: Parameters<typeof actOn>[2]): Promise<ItemChange | null> {
    const before = { actions: act.actions.length, moves: act.moves.length };
    const tried = await inSavepoint(client, () => actOn(this.#parts, client, act));
    if (tried.kind === 'done') return tried.value;
    act.actions.length = before.actions;
    act.moves.length = before.moves;
    if (tried.kind === 'contended') return null;
    return failed(act.item, tried.error instanceof Error ? tried.error.message : 'an unexpected error');
  }

  async #undo(client: pg.PoolClient, operation: LockedOperation, moves: Moves): Promise<Stepped> {
    const base = unchanged(operation);
    const open = await openItems(client, operation);
    if (open.waiting) {
      const skipped = await skipWaiting(client, operation.id, { limit: SKIPPED, error: 'The operation was undone.' });
      return { ...base, added: { ...NONE, skipped }, waitMs: 0 };
    }
    const result = operation.action === 'discard' ? 'succeeded' : 'sent';
    const items = await takeItems(client, operation.id, { result, afterN: operation.sweptN, limit: ACTS });
    const known = this.#undos.get(operation.id) ?? { isHeld: true, hasUndone: false, inVain: 0 };
    const before = operation.sweptN === 0 ? { ...known, isHeld: false } : known;
    const { changes, isHeld } = await this.#undoAll(client, { operation, items, moves });
    await writeItems(client, operation.id, changes);
    const skipped = changes.filter(({ result: each }) => each === 'skipped').length;
    const added = { ...NONE, skipped, undone: changes.length };
    const pass = { ...before, isHeld: before.isHeld || isHeld, hasUndone: before.hasUndone || changes.length > 0 };
    if (items.length === ACTS) {
      this.#undos.set(operation.id, pass);
      return { ...base, added, sweptN: items.at(-1)?.n ?? 0, waitMs: 0 };
    }
    if (!pass.isHeld) {
      this.#undos.delete(operation.id);
      return { ...base, added, isUndone: true, sweptN: 0, waitMs: 0 };
    }
    const inVain = pass.hasUndone ? 0 : pass.inVain + 1;
    this.#undos.set(operation.id, { isHeld: false, hasUndone: false, inVain });
    return { ...base, added, sweptN: 0, waitMs: pauseMs(PAUSES.undoHeld, inVain, Math.random()) };
  }

  /** `isHeld`: another transaction held an item, or a statement about it took too long, so another pass over the items is due. */
  async #undoAll(client: pg.PoolClient, { operation, items, moves }: Undoing): Promise<{ changes: ItemChange[]; isHeld: boolean }> {
    const changes: ItemChange[] = [];
    let isHeld = false;
    for (const item of items) {
      const before = moves.length;
      const tried = await inSavepoint(client, () => undoItem(this.#parts, client, { operation, item, moves }));
      if (tried.kind !== 'done') moves.length = before;
      if (tried.kind === 'failed' && !isPassing(tried.error)) this.#events.emit('error', { error: tried.error, where: 'operation runner' });
      else if (tried.kind !== 'done' || tried.value === 'held') isHeld = true;
      else if (tried.value !== null) changes.push(tried.value);
    }
    return { changes, isHeld };
  }
}

/** `isHeld`: an item could not be undone in this pass. `inVain`: so many passes before it undid nothing. */
type UndoPass = { readonly isHeld: boolean; readonly hasUndone: boolean; readonly inVain: number };

type Undoing = { operation: LockedOperation; items: readonly Item[]; moves: Moves };

type Sending = { operation: LockedOperation; base: Stepped; hasSent: boolean; moves: Moves };

type Counts = Stepped['added'];

const add = (counts: Counts, changes: readonly ItemChange[]): Counts => {
  const of = (result: ItemChange['result']) => changes.filter((change) => change.result === result).length;
  const { succeeded, failed: failures, skipped } = counts;
  return { ...counts, succeeded: succeeded + of('succeeded'), failed: failures + of('failed'), skipped: skipped + of('skipped') };
};

const unchanged = ({ id, state, haltedBecause, paidUntilMs, sweptN }: LockedOperation): Stepped => ({
  id,
  state,
  haltedBecause,
  paidUntilMs,
  sweptN,
  isFinished: false,
  isUndone: false,
  added: NONE,
  waitMs: 0,
});
