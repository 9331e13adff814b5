import { AppError } from '../../core/errors.ts';
import { type Batcher, createBatcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { type CancelledJob, type CancelParams, cancelFreeJobs, cancelJobs } from '../../ledger/jobs/cancel-jobs.ts';
import type { HeldJobs } from './held-jobs.ts';

/** One job that somebody wants cancelled. */
export type WantedCancellation = Omit<CancelParams, 'ids'> & { id: string };

type Request = CancelParams & { ids: string[] };

const MAX_BATCH = 200;
const MAX_WAITING = 5_000;
const MAX_WAIT_MS = 1_500;
const RETRY_AFTER_MS = 1_000;

const busy = () =>
  new AppError('UNAVAILABLE', { message: 'Too many wait for a job to be cancelled.', retryAfterMs: RETRY_AFTER_MS });

/**
 * Cancels single jobs, many callers to a statement: however many cancel jobs, they take two connections. A job that another
 * transaction holds leaves the statement and is waited for alone, for a moment.
 */
export class Canceller {
  readonly #database: Database;
  readonly #free: Batcher<WantedCancellation, CancelledJob | null>;
  readonly #heldJobs: HeldJobs;

  constructor({ database, heldJobs }: { database: Database; heldJobs: HeldJobs }) {
    this.#database = database;
    this.#heldJobs = heldJobs;
    this.#free = createBatcher<WantedCancellation, CancelledJob | null>({
      send: (wanted) => cancelAll(database.api, wanted),
      ...{ maxItems: MAX_BATCH, maxInFlight: 2, maxWaiting: MAX_WAITING, overflow: busy },
      ...{ maxWaitMs: MAX_WAIT_MS, expired: busy },
    });
  }

  async cancel(wanted: WantedCancellation): Promise<CancelledJob> {
    return (await this.#free.add(wanted)) ?? this.#cancelHeld(wanted);
  }

  /** Jobs that one caller names. One answer per id, in the order given. */
  async cancelMany({ ids, ...asked }: CancelParams): Promise<CancelledJob[]> {
    const answers = await cancelFreeJobs(this.#database.api, { ids, ...asked });
    return Promise.all(
      answers.map((answer, index) => answer ?? this.#cancelHeld({ id: ids[index] as string, ...asked })),
    );
  }

  async #cancelHeld({ id, ...asked }: WantedCancellation): Promise<CancelledJob> {
    const [answer] = await this.#heldJobs.wait((client) => cancelJobs(client, { ids: [id], ...asked }));
    return answer as CancelledJob;
  }
}

/** One statement for all that ask the same of jobs of one org. What fails fails for those who asked it. */
async function cancelAll(
  db: Queryable,
  wanted: readonly WantedCancellation[],
): Promise<(CancelledJob | null | Error)[]> {
  const requests: Request[] = [];
  const places = wanted.map((each) => placeIn(requests, each));
  const answers: (readonly (CancelledJob | null)[] | Error)[] = [];
  for (const request of requests) answers.push(await cancelFreeJobs(db, request).catch((error: Error) => error));
  return places.map(({ request, index }) => {
    const answer = answers[request] as readonly (CancelledJob | null)[] | Error;
    return answer instanceof Error ? answer : (answer[index] as CancelledJob | null);
  });
}

/** Whoever names a job a second time asks after the first, and learns what that did. */
function placeIn(requests: Request[], { id, ...asked }: WantedCancellation): { request: number; index: number } {
  const isAlike = (each: Request): boolean =>
    each.orgId === asked.orgId &&
    each.actor === asked.actor &&
    each.reason === asked.reason &&
    each.force === asked.force;
  const named = requests.findLastIndex(({ ids }) => ids.includes(id));
  const found = requests.findIndex((each, request) => request > named && isAlike(each));
  if (found === -1) return { request: requests.push({ ...asked, ids: [id] }) - 1, index: 0 };
  return { request: found, index: (requests[found] as Request).ids.push(id) - 1 };
}
