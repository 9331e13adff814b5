import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { refuseReservedName } from '../../core/reserved-names.ts';
import { FIELD_LIMITS, Issues, readText, readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { setOrgCap } from '../../ledger/access/orgs.ts';
import { pauseType, resumeType, setTypeConcurrency } from '../../ledger/queues/job-types.ts';
import { type ClaimOrder, configureQueue, type Queue, readQueues } from '../../ledger/queues/queues.ts';

/** What an operator can change while jobs run: queues, types and caps, for all processes at once. */
export class QueueControls {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  list(): Promise<Queue[]> {
    return readQueues(this.#engine.database.api);
  }

  /** `fifo` serves by priority and submission over all orgs; `fair` lets orgs take turns. */
  async configure(queue: string, change: { order: ClaimOrder }): Promise<void> {
    checkNewName(queue, 'queue');
    checkOrder(change.order);
    await configureQueue(this.#engine.database.api, { name: queue, order: change.order });
    await this.#changed();
  }

  async pause(queue: string): Promise<void> {
    checkName(queue, 'queue');
    await configureQueue(this.#engine.database.api, { name: queue, paused: true });
  }

  async resume(queue: string): Promise<void> {
    checkName(queue, 'queue');
    await configureQueue(this.#engine.database.api, { name: queue, paused: false });
    this.#engine.hint('ready');
  }

  async pauseType(type: string): Promise<void> {
    checkName(type, 'type');
    await pauseType(this.#engine.database.api, type);
  }

  async resumeType(type: string): Promise<void> {
    checkName(type, 'type');
    await resumeType(this.#engine.database.api, type);
    this.#engine.hint('ready');
  }

  /** At most this many jobs of the type run at once, over all workers; null lifts the cap. */
  async capType(type: string, concurrency: number | null): Promise<void> {
    checkNewName(type, 'type');
    await setTypeConcurrency(this.#engine.database.api, type, concurrency);
    await this.#changed();
  }

  /** At most this many jobs of the org run at once, over all workers; null lifts the cap. */
  async capOrg(orgId: string, running: number | null): Promise<void> {
    checkOrg(orgId);
    await setOrgCap(this.#engine.database.api, orgId, running);
    await this.#changed();
  }

  async #changed(): Promise<void> {
    await this.#engine.catalogue.refresh();
    this.#engine.hint('catalogue');
    this.#engine.hint('ready');
  }
}

type Named = 'queue' | 'type';

/** Queues and types that are older than the rule on reserved names can still be paused and resumed. */
function checkName(name: string, field: Named): void {
  const issues = new Issues();
  readText(name, { field, max: FIELD_LIMITS[field], isName: true }, issues);
  refuse(issues);
}

function checkNewName(name: string, field: Named): void {
  checkName(name, field);
  const issues = new Issues();
  refuseReservedName(name, field, issues);
  refuse(issues);
}

function checkOrder(order: ClaimOrder): void {
  const issues = new Issues();
  readWord(order, { field: 'order', words: ['fifo', 'fair'] }, issues);
  refuse(issues);
}

function checkOrg(orgId: string): void {
  const issues = new Issues();
  if (!isUuid(orgId)) issues.add('orgId', 'INVALID_ID', 'must be the id of an org');
  refuse(issues);
}

function refuse({ list }: Issues): void {
  if (list.length > 0) throw new AppError('INVALID_REQUEST', { message: list[0]?.message, details: list });
}
