import type {
  DeadLetterReason,
  ListOperationItemsQuery,
  ListOperationsQuery,
  NewOperation,
  Operation,
  OperationItem,
  OperationItemList,
  OperationList,
  OperationPreview,
} from './api-types.ts';
import { lookUntil } from './look-until.ts';
import { allPages } from './pages.ts';
import type { CallOptions, Transport } from './transport.ts';
import type { WaitOptions } from './wait-for-job.ts';

/** How to wait for an operation. */
export type WaitForOperationOptions = WaitOptions & {
  /** Called with the first counts and with each change of them. */
  onProgress?(operation: Operation): void;
};

const PAGE = 1_000;

/** Changes of many jobs, which continue on the server without the client. Members are spelled as on the wire. */
export class ClientOperations {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns what the operation would do, and changes nothing. */
  preview(operation: Omit<NewOperation, 'dry_run'>, { signal }: CallOptions = {}): Promise<OperationPreview> {
    return this.#transport.json({ method: 'POST', path: '/operations', body: { ...operation, dry_run: true }, signal });
  }

  /** Starts an operation. The client repeats this call only after a 429, because a repeat is another operation. */
  create(operation: Omit<NewOperation, 'dry_run'>, { signal }: CallOptions = {}): Promise<Operation> {
    return this.#transport.json({ method: 'POST', path: '/operations', body: operation, signal, isUnrepeatable: true });
  }

  /** Returns an operation with its progress. Throws NotFoundError if the org has no such operation. */
  get(operationId: string, { signal }: CallOptions = {}): Promise<Operation> {
    return this.#transport.json({ method: 'GET', path: pathOf(operationId), signal });
  }

  /** Iterates over the operations of the org, newest first, and fetches pages as needed. */
  list(query: Partial<ListOperationsQuery> = {}, { signal }: CallOptions = {}): AsyncGenerator<Operation, void> {
    const read = async (cursor: string | undefined) => {
      const call = { method: 'GET', path: '/operations', query: { ...query, cursor }, signal } as const;
      const { items, next_cursor } = await this.#transport.json<OperationList>(call);
      return { items, nextCursor: next_cursor };
    };
    return allPages({ cursor: query.cursor, signal, read });
  }

  /** Iterates over the report of an operation: each of its jobs once, with its result. */
  items(
    operationId: string,
    query: Partial<ListOperationItemsQuery> = {},
    { signal }: CallOptions = {},
  ): AsyncGenerator<OperationItem, void> {
    const read = async (cursor: string | undefined) => {
      const call = { method: 'GET', path: `${pathOf(operationId)}/items`, query: { limit: PAGE, ...query, cursor }, signal } as const;
      const { items, next_cursor } = await this.#transport.json<OperationItemList>(call);
      return { items, nextCursor: next_cursor };
    };
    return allPages({ cursor: query.cursor, signal, read });
  }

  /** Returns the operation when all its jobs have a result, or when it is halted and waits for a decision. */
  waitFor(operationId: string, { onProgress, ...options }: WaitForOperationOptions = {}): Promise<Operation> {
    return lookUntil({
      ...options,
      what: `Operation ${operationId}`,
      read: (signal) => this.get(operationId, { signal }),
      isOver: ({ finished_at, state }) => finished_at !== null || state === 'halted',
      onProgress,
    });
  }

  /** Sends no more jobs until it is resumed. The client repeats this call and the next three only after a 429. */
  pause(operationId: string, body: DeadLetterReason = {}, options: CallOptions = {}): Promise<Operation> {
    return this.#control(operationId, 'pause', body, options);
  }

  /** Continues a paused or halted operation. After a halt, the count of failures starts again. */
  resume(operationId: string, body: DeadLetterReason = {}, options: CallOptions = {}): Promise<Operation> {
    return this.#control(operationId, 'resume', body, options);
  }

  /** Ends an operation. The jobs that it has not acted on are skipped. */
  stop(operationId: string, body: DeadLetterReason = {}, options: CallOptions = {}): Promise<Operation> {
    return this.#control(operationId, 'stop', body, options);
  }

  /** Stops an operation and takes back what it did. Jobs that have started go on. */
  undo(operationId: string, body: DeadLetterReason = {}, options: CallOptions = {}): Promise<Operation> {
    return this.#control(operationId, 'undo', body, options);
  }

  #control(operationId: string, control: string, body: DeadLetterReason, { signal }: CallOptions): Promise<Operation> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(operationId)}/${control}`, body, signal, isUnrepeatable: true });
  }
}

const pathOf = (operationId: string): string => `/operations/${encodeURIComponent(operationId)}`;
