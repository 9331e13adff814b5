import { AppError, invalidRequest } from '../../core/errors.ts';
import { BY_PROGRAM, NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import { checkQueueSettings, type QueueSettingsChange } from '../../core/governance/queue-settings.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { type LimitSubmission, readLimit } from '../../core/limit.ts';
import { refuseReservedName } from '../../core/reserved-names.ts';
import { FIELD_LIMITS, readText, readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { setOrgCap } from '../../ledger/access/orgs.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { pauseType, resumeType, setTypeConcurrency } from '../../ledger/queues/job-types.ts';
import { configureQueue, type Queue, readQueues } from '../../ledger/queues/queues.ts';

type RunCall = <T>(work: () => Promise<T>) => Promise<T>;

type Change = QueueSettingsChange & { limit?: LimitSubmission | null };

const CHANGE = membersOf<Change>({
  order: true,
  limit: true,
  concurrency: true,
  rate: true,
  depthCap: true,
  sloSeconds: true,
  reservedShare: true,
});

/** Pauses, resumes and limits queues, types and orgs while jobs run. A change applies to all processes. */
export class QueueControls {
  readonly #engine: Engine;
  readonly #run: RunCall;

  readonly #requester: Requester;

  /** `run` starts each call, or refuses it. Without it, every call starts. `requester` is whom the audit trail names. */
  constructor(engine: Engine, run: RunCall = (work) => work(), requester: Requester = BY_PROGRAM) {
    this.#engine = engine;
    this.#run = run;
    this.#requester = requester;
  }

  /** Returns all queues. */
  list(): Promise<Queue[]> {
    return this.#run(() => readQueues(this.#engine.database.api));
  }

  /**
   * Changes a queue. Null removes a setting. `order` is the order of claims among jobs of one priority: `fair`, the default, lets orgs take turns; `fifo` orders
   * jobs of all orgs by submission. `limit` applies to jobs whose submission and type have none; its key may contain placeholders such as
   * `{payload.customer.id}`. `concurrency` and `rate` bound how many of its jobs run at the same time and start a second, over all workers.
   * `depthCap` bounds how many of its jobs wait, for submissions over HTTP. `sloSeconds` is how long its jobs should wait at most.
   * `reservedShare` is the part of each worker's slots that jobs of other queues do not take.
   */
  configure(queue: string, change: Change): Promise<void> {
    return this.#run(async () => {
      checkNewName(queue, 'queue');
      checkMembers(change, CHANGE, 'change');
      const issues = new Issues();
      const { order, limit, ...settings } = change;
      const isEmpty = Object.values(change).every((value) => value === undefined);
      if (order !== undefined || isEmpty) readWord(order, { field: 'order', words: ['fifo', 'fair'] }, issues);
      checkQueueSettings(settings, issues);
      const read = limit == null ? limit : readLimit(limit, issues, { isTemplate: true });
      issues.throwIfAny();
      const members = {
        queue,
        ...(order === undefined ? {} : { order }),
        ...(limit === undefined ? {} : { limit: read ?? null }),
        ...settings,
      };
      await this.#change('queue.changed', members, (db) => configureQueue(db, { ...settings, name: queue, order, limit: read }));
      await this.#changed();
    });
  }

  /** Stops claims from a queue. Running jobs continue. */
  pause(queue: string): Promise<void> {
    return this.#run(async () => {
      checkName(queue, 'queue');
      await this.#change('queue.paused', { queue }, (db) => configureQueue(db, { name: queue, paused: true }));
    });
  }

  /** Ends the pause and the drain of a queue. */
  resume(queue: string): Promise<void> {
    return this.#run(async () => {
      checkName(queue, 'queue');
      await this.#change('queue.resumed', { queue }, (db) => configureQueue(db, { name: queue, paused: false, draining: false }));
      await this.#changed();
    });
  }

  /** Accepts no new job in a queue. Jobs that wait there still run. */
  drain(queue: string): Promise<void> {
    return this.#run(async () => {
      checkName(queue, 'queue');
      await this.#change('queue.draining', { queue }, (db) => configureQueue(db, { name: queue, draining: true }));
      await this.#changed();
    });
  }

  /** Stops claims of a job type. Running jobs continue. */
  pauseType(type: string): Promise<void> {
    return this.#run(async () => {
      checkName(type, 'type');
      await this.#change('type.paused', { type }, (db) => pauseType(db, type));
    });
  }

  /** Allows claims of a job type again. */
  resumeType(type: string): Promise<void> {
    return this.#run(async () => {
      checkName(type, 'type');
      await this.#change('type.resumed', { type }, (db) => resumeType(db, type));
      this.#engine.hint('ready');
    });
  }

  /** Limits how many jobs of a type run at the same time in all processes. Null removes the limit. */
  capType(type: string, concurrency: number | null): Promise<void> {
    return this.#run(async () => {
      checkNewName(type, 'type');
      checkCap(concurrency, 'concurrency');
      await this.#change('type.changed', { type, concurrency }, (db) => setTypeConcurrency(db, type, concurrency));
      await this.#changed();
    });
  }

  /** Limits how many jobs of an org run at the same time in all processes. Null removes the limit. */
  capOrg(orgId: string, running: number | null): Promise<void> {
    return this.#run(async () => {
      if (!isUuid(orgId)) {
        throw invalidRequest({ field: 'orgId', code: 'INVALID_ID', message: 'orgId must be the id of an org' });
      }
      checkCap(running, 'running');
      const isKnown = await this.#change('org.changed', { orgId, running }, (db) => setOrgCap(db, orgId, running));
      if (!isKnown) throw new AppError('NOT_FOUND', { message: `Org ${orgId} does not exist.` });
      await this.#changed();
    });
  }

  /** Makes a change and its row for the audit trail together. A change that finds nothing has no row. */
  #change<T>(event: string, { orgId = NIL_ORG_ID, ...details }: ChangeDetails, work: (db: Queryable) => Promise<T>): Promise<T> {
    return inTransaction(this.#engine.database.api, async (client) => {
      const done = await work(client);
      if (done !== false) await recordActions(client, [{ orgId, event, requester: this.#requester, details }]);
      return done;
    });
  }

  async #changed(): Promise<void> {
    await this.#engine.catalogue.refresh();
    this.#engine.hint('catalogue');
    this.#engine.hint('ready');
  }
}

type ChangeDetails = { orgId?: string } & Readonly<Record<string, unknown>>;

type Named = 'queue' | 'type';

/** Existing queues and types with a reserved name can be paused and resumed. */
function checkName(name: string, field: Named): void {
  const issues = new Issues();
  readText(name, { field, max: FIELD_LIMITS[field], isName: true }, issues);
  issues.throwIfAny();
}

const MOST_RUNNING = 2_147_483_647;

function checkCap(cap: number | null, field: string): void {
  if (cap === null || (Number.isInteger(cap) && cap >= 1 && cap <= MOST_RUNNING)) return;
  throw invalidRequest({ field, code: 'OUT_OF_RANGE', message: `${field} must be an integer of at least 1, or null for no limit` });
}

function checkNewName(name: string, field: Named): void {
  checkName(name, field);
  const issues = new Issues();
  refuseReservedName(name, field, issues);
  issues.throwIfAny();
}
