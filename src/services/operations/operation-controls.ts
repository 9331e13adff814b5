import type { Requester } from '../../core/governance/audit-action.ts';
import type { ItemResult, OperationState } from '../../core/governance/operation.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { LIBRARY } from '../dead-letters/dead-letter-request.ts';
import { changeOperation, type OperationControl } from './control-operation.ts';
import type { OperationRequest } from './operation-request.ts';
import { type Preview, previewOperation } from './preview-operation.ts';
import { type ItemPage, type Operation, type OperationPage, readItems, readOperation, readOperations } from './read-operations.ts';
import { startOperation } from './start-operation.ts';

type RunCall = <T>(work: () => Promise<T>) => Promise<T>;

type ReasonOptions = {
  /** Why, for the audit trail. */
  reason?: string;
};
type PageOptions = {
  /** How many at most, 1 to 1000. Default 100. */
  limit?: number;
  /** The `nextCursor` of the page before. */
  cursor?: string | null;
};
type ListOptions = PageOptions & { state?: OperationState };
type ItemOptions = PageOptions & { result?: ItemResult };

const REASON = membersOf<ReasonOptions>({ reason: true });
const LIST = membersOf<ListOptions>({ limit: true, cursor: true, state: true });
const ITEMS = membersOf<ItemOptions>({ limit: true, cursor: true, result: true });

/** Changes many jobs of an org, step by step. Processes that run jobs carry out the operations. */
export class OperationControls {
  readonly #engine: Engine;
  readonly #orgId: string;
  readonly #run: RunCall;
  readonly #requester: Requester;

  /** `run` starts each call, or refuses it. Without it, every call starts. */
  constructor(
    engine: Engine,
    orgId: string,
    { run = (work) => work(), requester = LIBRARY }: { run?: RunCall; requester?: Requester } = {},
  ) {
    this.#engine = engine;
    this.#orgId = orgId;
    this.#run = run;
    this.#requester = requester;
  }

  /** Creates an operation and returns it. Throws INVALID_REQUEST for a wrong request. */
  create(request: OperationRequest): Promise<Operation> {
    return this.#run(() => startOperation(this.#engine, { ...wholeOrg(this.#orgId), request, requester: this.#requester }));
  }

  /** Returns how many jobs an operation would act on, and what it would do with some of them. */
  preview(request: OperationRequest): Promise<Preview> {
    return this.#run(() => previewOperation(this.#engine, { ...wholeOrg(this.#orgId), request }));
  }

  /** Returns an operation with its progress. Throws NOT_FOUND. */
  get(id: string): Promise<Operation> {
    return this.#run(() => readOperation(this.#engine, { ...wholeOrg(this.#orgId), id }));
  }

  /** Returns a page of operations, newest first. */
  list(options: ListOptions = {}): Promise<OperationPage> {
    return this.#run(async () => {
      checkMembers(options, LIST);
      return readOperations(this.#engine, { ...wholeOrg(this.#orgId), ...options });
    });
  }

  /** Returns a page of the jobs of an operation, each once. Throws NOT_FOUND. */
  items(id: string, options: ItemOptions = {}): Promise<ItemPage> {
    return this.#run(async () => {
      checkMembers(options, ITEMS);
      return readItems(this.#engine, { ...wholeOrg(this.#orgId), id, ...options });
    });
  }

  /** Sends no more jobs until it is resumed. Throws NOT_FOUND and CONFLICT, as the three below. */
  pause(id: string, options: ReasonOptions = {}): Promise<Operation> {
    return this.#change(id, 'pause', options);
  }

  /** Continues a paused or halted operation. */
  resume(id: string, options: ReasonOptions = {}): Promise<Operation> {
    return this.#change(id, 'resume', options);
  }

  /** Ends an operation. The jobs that it has not acted on are skipped. */
  stop(id: string, options: ReasonOptions = {}): Promise<Operation> {
    return this.#change(id, 'stop', options);
  }

  /** Stops an operation and takes back what it did with jobs that have not started. */
  undo(id: string, options: ReasonOptions = {}): Promise<Operation> {
    return this.#change(id, 'undo', options);
  }

  #change(id: string, control: OperationControl, options: ReasonOptions): Promise<Operation> {
    return this.#run(async () => {
      checkMembers(options, REASON);
      const requester = { ...this.#requester, reason: options.reason ?? null };
      return changeOperation(this.#engine, { ...wholeOrg(this.#orgId), id, control, requester });
    });
  }
}
