import { AppError, invalidRequest } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { type LimitSubmission, readLimit } from '../../core/limit.ts';
import { refuseReservedName } from '../../core/reserved-names.ts';
import { FIELD_LIMITS, readText, readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { setOrgCap } from '../../ledger/access/orgs.ts';
import { pauseType, resumeType, setTypeConcurrency } from '../../ledger/queues/job-types.ts';
import { type ClaimOrder, configureQueue, type Queue, readQueues } from '../../ledger/queues/queues.ts';

type RunCall = <T>(work: () => Promise<T>) => Promise<T>;

type Change = { order?: ClaimOrder; limit?: LimitSubmission | null };

const CHANGE = membersOf<Change>({ order: true, limit: true });

/** Pauses, resumes and limits queues, types and orgs while jobs run. A change applies to all processes. */
export class QueueControls {
  readonly #engine: Engine;
  readonly #run: RunCall;

  /** `run` starts each call, or refuses it. Without it, every call starts. */
  constructor(engine: Engine, run: RunCall = (work) => work()) {
    this.#engine = engine;
    this.#run = run;
  }

  /** Returns all queues. */
  list(): Promise<Queue[]> {
    return this.#run(() => readQueues(this.#engine.database.api));
  }

  /**
   * Changes a queue. `order` is the order of claims among jobs of one priority: `fair`, the default, lets orgs take turns; `fifo` orders
   * jobs of all orgs by submission. `limit` applies to jobs whose submission and type have none; its key may contain placeholders such as
   * `{payload.customer.id}`, and null removes it.
   */
  configure(queue: string, change: Change): Promise<void> {
    return this.#run(async () => {
      checkNewName(queue, 'queue');
      checkMembers(change, CHANGE, 'change');
      const issues = new Issues();
      const { order, limit } = change;
      if (order !== undefined || limit === undefined) readWord(order, { field: 'order', words: ['fifo', 'fair'] }, issues);
      const read = limit == null ? limit : readLimit(limit, issues, { isTemplate: true });
      issues.throwIfAny();
      await configureQueue(this.#engine.database.api, { name: queue, order, limit: read });
      await this.#changed();
    });
  }

  /** Stops claims from a queue. Running jobs continue. */
  pause(queue: string): Promise<void> {
    return this.#run(async () => {
      checkName(queue, 'queue');
      await configureQueue(this.#engine.database.api, { name: queue, paused: true });
    });
  }

  /** Allows claims from a queue again. */
  resume(queue: string): Promise<void> {
    return this.#run(async () => {
      checkName(queue, 'queue');
      await configureQueue(this.#engine.database.api, { name: queue, paused: false });
      this.#engine.hint('ready');
    });
  }

  /** Stops claims of a job type. Running jobs continue. */
  pauseType(type: string): Promise<void> {
    return this.#run(async () => {
      checkName(type, 'type');
      await pauseType(this.#engine.database.api, type);
    });
  }

  /** Allows claims of a job type again. */
  resumeType(type: string): Promise<void> {
    return this.#run(async () => {
      checkName(type, 'type');
      await resumeType(this.#engine.database.api, type);
      this.#engine.hint('ready');
    });
  }

  /** Limits how many jobs of a type run at the same time in all processes. Null removes the limit. */
  capType(type: string, concurrency: number | null): Promise<void> {
    return this.#run(async () => {
      checkNewName(type, 'type');
      checkCap(concurrency, 'concurrency');
      await setTypeConcurrency(this.#engine.database.api, type, concurrency);
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
      const isKnown = await setOrgCap(this.#engine.database.api, orgId, running);
      if (!isKnown) throw new AppError('NOT_FOUND', { message: `Org ${orgId} does not exist.` });
      await this.#changed();
    });
  }

  async #changed(): Promise<void> {
    await this.#engine.catalogue.refresh();
    this.#engine.hint('catalogue');
    this.#engine.hint('ready');
  }
}

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
