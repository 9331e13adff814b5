import { AppError } from '../../core/errors.ts';
import { FairTurns } from '../../core/fair-turns.ts';
import type { Batcher } from '../../ledger/driver/batcher.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { type CancelledJob, type CancelParams, cancelFreeJobs, cancelJobs } from '../../ledger/jobs/cancel-jobs.ts';
import { createCallBatcher } from '../call-batcher.ts';
import type { EventHub } from '../events.ts';
import { reportMoves } from '../report-moves.ts';
import type { HeldJobs } from './held-jobs.ts';

/** A request to cancel one job. */
export type CancelRequest = Omit<CancelParams, 'ids' | 'requestIds'> & { id: string; requestId?: string | null };

/** How many cancellations by filter run at the same time, and how many of one org wait. */
const FILTERS = 4;
const MAX_FILTERS_WAITING = 10;

const tooManyFilters = (): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `${MAX_FILTERS_WAITING} cancellations by filter of the org wait for the one that runs. Send one after the other.`,
    quota: { limit: 'org_filter_cancellations', current: MAX_FILTERS_WAITING, maximum: MAX_FILTERS_WAITING, retryAfterMs: 1_000 },
  });

type Request = Omit<CancelParams, 'ids' | 'requestIds'> & { ids: string[]; requestIds: (string | null)[] };

/**
 * Cancels single jobs, many callers to a statement, on two connections at most. A job that another transaction holds
 * leaves the statement, and its caller waits for it separately for a moment.
 */
export class Canceller {
  /** Cancellations by filter: one at a time for each org, because each reads many jobs. */
  readonly filterTurns = new FairTurns({
    limit: FILTERS,
    part: 1,
    perHolder: 1,
    maxWaiting: MAX_FILTERS_WAITING,
    overflow: tooManyFilters,
  });
  readonly #database: Database;
  readonly #free: Batcher<CancelRequest, CancelledJob | null>;
  readonly #heldJobs: HeldJobs;
  readonly #events: EventHub;

  constructor({ database, heldJobs, events }: { database: Database; heldJobs: HeldJobs; events: EventHub }) {
    this.#database = database;
    this.#heldJobs = heldJobs;
    this.#events = events;
    this.#free = createCallBatcher<CancelRequest, CancelledJob | null>({
      send: (wanted) => cancelAll(database.api, wanted),
      busy: 'Too many requests to cancel a job are waiting. Try again in a moment.',
      maxWaitMs: 1_500,
    });
  }

  async cancel(wanted: CancelRequest): Promise<CancelledJob> {
    const cancelled = (await this.#free.add(wanted)) ?? (await this.#cancelHeld(wanted));
    reportMoves(this.#events, [cancelled.moved], wanted);
    return cancelled;
  }

  /** Returns one result for each id, in the given order. */
  async cancelMany({ ids, requestId = null, ...asked }: Omit<CancelRequest, 'id'> & { ids: readonly string[] }): Promise<CancelledJob[]> {
    const results = await cancelFreeJobs(this.#database.api, { ids, requestIds: ids.map(() => requestId), ...asked });
    const report = (result: CancelledJob): CancelledJob => {
      reportMoves(this.#events, [result.moved], { requestId });
      return result;
    };
    return Promise.all(
      results.map(async (result, index) => report(result ?? (await this.#cancelHeld({ id: ids[index] as string, requestId, ...asked })))),
    );
  }

  async #cancelHeld({ id, requestId = null, ...asked }: CancelRequest): Promise<CancelledJob> {
    const [result] = await this.#heldJobs.wait((client) => cancelJobs(client, { ids: [id], requestIds: [requestId], ...asked }));
    return result as CancelledJob;
  }
}

/** Sends one statement for all equal requests about jobs of one org. If a statement fails, only its callers get the error. */
async function cancelAll(db: Queryable, wanted: readonly CancelRequest[]): Promise<(CancelledJob | null | Error)[]> {
  const requests: Request[] = [];
  const places = wanted.map((each) => placeIn(requests, each));
  const results: (readonly (CancelledJob | null)[] | Error)[] = [];
  for (const request of requests) results.push(await cancelFreeJobs(db, request).catch((error: Error) => error));
  return places.map(({ request, index }) => {
    const result = results[request] as readonly (CancelledJob | null)[] | Error;
    return result instanceof Error ? result : (result[index] as CancelledJob | null);
  });
}

/** A second request for the same job goes into a later statement, so that it sees the effect of the first. */
function placeIn(requests: Request[], { id, requestId = null, ...asked }: CancelRequest): { request: number; index: number } {
  const isAlike = (each: Request): boolean =>
    each.orgId === asked.orgId &&
    each.projectId === asked.projectId &&
    each.actor === asked.actor &&
    each.reason === asked.reason &&
    each.force === asked.force;
  const named = requests.findLastIndex(({ ids }) => ids.includes(id));
  const found = requests.findIndex((each, request) => request > named && isAlike(each));
  if (found === -1) return { request: requests.push({ ...asked, ids: [id], requestIds: [requestId] }) - 1, index: 0 };
  const request = requests[found] as Request;
  request.requestIds.push(requestId);
  return { request: found, index: request.ids.push(id) - 1 };
}
