import { AppError } from '../core/errors.ts';
import { type Batcher, createBatcher } from '../ledger/batcher.ts';
import { type CancelledJob, type CancelParams, cancelJobs } from '../ledger/cancel-jobs.ts';
import type { Database } from '../ledger/database.ts';
import type { Queryable } from '../ledger/statement.ts';

/** One job that somebody wants cancelled. */
export type WantedCancellation = Omit<CancelParams, 'ids'> & { id: string };

type Request = CancelParams & { ids: string[] };

const MAX_BATCH = 200;
const MAX_WAITING = 5_000;
const MAX_WAIT_MS = 1_500;
const RETRY_AFTER_MS = 1_000;

const busy = () =>
  new AppError('UNAVAILABLE', { message: 'Too many wait for a job to be cancelled.', retryAfterMs: RETRY_AFTER_MS });

/** Cancels single jobs, many callers to a statement: however many cancel jobs, they take two connections. */
export class Canceller {
  readonly #batcher: Batcher<WantedCancellation, CancelledJob>;

  constructor({ database }: { database: Database }) {
    this.#batcher = createBatcher<WantedCancellation, CancelledJob>({
      send: (wanted) => cancelAll(database.api, wanted),
      ...{ maxItems: MAX_BATCH, maxInFlight: 2, maxWaiting: MAX_WAITING, overflow: busy },
      ...{ maxWaitMs: MAX_WAIT_MS, expired: busy },
    });
  }

  cancel(wanted: WantedCancellation): Promise<CancelledJob> {
    return this.#batcher.add(wanted);
  }
}

/** One statement for all that ask the same of jobs of one org. What fails fails for those who asked it. */
async function cancelAll(db: Queryable, wanted: readonly WantedCancellation[]): Promise<(CancelledJob | Error)[]> {
  const requests: Request[] = [];
  const places = wanted.map((each) => placeIn(requests, each));
  const answers: (readonly CancelledJob[] | Error)[] = [];
  for (const request of requests) answers.push(await cancelJobs(db, request).catch((error: Error) => error));
  return places.map(({ request, index }) => {
    const answer = answers[request] as readonly CancelledJob[] | Error;
    return answer instanceof Error ? answer : (answer[index] as CancelledJob);
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
