import type {
  DeadLetter,
  DeadLetterGroupList,
  DeadLetterPage,
  DeadLetterReason,
  DiscardedDeadLetter,
  FixedForward,
  FixForward,
  GroupDeadLettersQuery,
  ListDeadLettersQuery,
  ReplayedDeadLetter,
  RestoredDeadLetter,
} from './api-types.ts';
import { allPages } from './pages.ts';
import type { CallOptions, Transport } from './transport.ts';

const PAGE = 1_000;

/** Jobs that failed for good, and what to do about them. Members are spelled as on the wire. For many of them, use `operations`. */
export class ClientDeadLetters {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Iterates over matching entries, newest first, and fetches pages as needed. Without a status, it returns open entries only. */
  list(query: Partial<ListDeadLettersQuery> = {}, { signal }: CallOptions = {}): AsyncGenerator<DeadLetter, void> {
    const read = async (cursor: string | undefined) => {
      const call = { method: 'GET', path: '/deadletter', query: { limit: PAGE, ...query, cursor }, signal } as const;
      const { items, next_cursor } = await this.#transport.json<DeadLetterPage>(call);
      return { items, nextCursor: next_cursor };
    };
    return allPages({ cursor: query.cursor, signal, read });
  }

  /** Returns the groups of entries with the same cause, largest first. */
  groups(query: Partial<GroupDeadLettersQuery> = {}, { signal }: CallOptions = {}): Promise<DeadLetterGroupList> {
    return this.#transport.json({ method: 'GET', path: '/deadletter/groups', query, signal });
  }

  /** Returns the entry of a job. Throws NotFoundError if the org has none. */
  get(jobId: string, { signal }: CallOptions = {}): Promise<DeadLetter> {
    return this.#transport.json({ method: 'GET', path: pathOf(jobId), signal });
  }

  /** Runs the same job again with fresh attempts. The client repeats this call only after a 429, because a repeat finds a closed entry. */
  replay(jobId: string, body: DeadLetterReason = {}, { signal }: CallOptions = {}): Promise<ReplayedDeadLetter> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(jobId)}/replay`, body, signal, isUnrepeatable: true });
  }

  /** Closes the entry without running the job. `restore` undoes that until `undo_until`. The client repeats this call only after a 429. */
  discard(jobId: string, body: DeadLetterReason = {}, { signal }: CallOptions = {}): Promise<DiscardedDeadLetter> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(jobId)}/discard`, body, signal, isUnrepeatable: true });
  }

  /** Opens a discarded entry again. The client repeats this call only after a 429. */
  restore(jobId: string, body: DeadLetterReason = {}, { signal }: CallOptions = {}): Promise<RestoredDeadLetter> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(jobId)}/restore`, body, signal, isUnrepeatable: true });
  }

  /** Submits a new job with a corrected payload in the place of the dead one. The client repeats this call only after a 429. */
  fixForward(jobId: string, body: FixForward, { signal }: CallOptions = {}): Promise<FixedForward> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(jobId)}/fix-forward`, body, signal, isUnrepeatable: true });
  }
}

const pathOf = (jobId: string): string => `/deadletter/${encodeURIComponent(jobId)}`;
