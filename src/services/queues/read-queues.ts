import { AppError } from '../../core/errors.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { DEAD_LETTER_QUEUE } from '../../core/submission-fields.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { countDeadLetters } from '../../ledger/queues/count-dead-letters.ts';
import { type QueueLoad, queueLoad } from '../../ledger/queues/queue-load.ts';
import { type QueueStarts, readQueueStarts } from '../../ledger/queues/queue-starts.ts';
import { type Queue, readQueues } from '../../ledger/queues/queues.ts';
import { type ListPage, type PageRequest, pageOf } from './list-page.ts';

type Parts = { readonly database: Database };

/** A queue with its settings, and the jobs of one org or of all. */
export type QueueView = Queue & {
  readonly waiting: number;
  readonly running: number;
  /** How long the job that has waited longest could have started; null if none waits. */
  readonly oldestWaitingMs: number | null;
  /** Whether jobs start in time; null if the queue has no target, or nothing was started. */
  readonly sloMet: boolean | null;
};

/** The part of the starts that may have been late. */
const MOST_LATE = 0.01;

/** `orgId`: counts only its jobs. Null: those of all orgs. */
export async function listQueues(
  { database }: Parts,
  { orgId, ...page }: PageRequest & { orgId: string | null },
): Promise<ListPage<QueueView>> {
  const queues = await viewsOf(database, orgId, null);
  return pageOf(database, { items: queues, keyOf: ({ name }) => name, list: 'QUEUES', orgId }, page);
}

export async function findQueue({ database }: Parts, { orgId, name }: { orgId: string | null; name: string }): Promise<QueueView> {
  const [queue] = await viewsOf(database, orgId, name);
  if (queue !== undefined) return queue;
  const names = (await readQueues(database.api)).map((each) => each.name);
  throw noSuchQueue(name, names);
}

export const noSuchQueue = (name: string, names: readonly string[]): AppError =>
  new AppError('NOT_FOUND', {
    message: `There is no queue "${name.slice(0, 100)}"${suggestion(name, names)}. See GET /operators/queues or "millrace queues list".`,
  });

async function viewsOf({ maintenance }: Database, orgId: string | null, name: string | null): Promise<QueueView[]> {
  const all = await readQueues(maintenance);
  const queues = (name === null ? all : all.filter((queue) => queue.name === name)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  if (queues.length === 0) return [];
  const [loads, starts] = await Promise.all([queueLoad(maintenance, orgId, name), readQueueStarts(maintenance, orgId)]);
  const loadOf = new Map(loads.map((load) => [load.name, load]));
  const letters = queues.some((queue) => queue.name === DEAD_LETTER_QUEUE) ? await countDeadLetters(maintenance, orgId) : 0;
  return queues.map((queue) =>
    queue.name === DEAD_LETTER_QUEUE ? deadLetterView(queue, letters) : viewOf(queue, loadOf.get(queue.name), starts.get(queue.name)),
  );
}

const deadLetterView = (queue: Queue, waiting: number): QueueView => ({
  ...queue,
  waiting,
  running: 0,
  oldestWaitingMs: null,
  sloMet: null,
});

function viewOf(queue: Queue, load: QueueLoad | undefined, starts: QueueStarts | undefined): QueueView {
  const { waiting = 0, running = 0, oldestWaitingMs = null } = load ?? {};
  return { ...queue, waiting, running, oldestWaitingMs, sloMet: isMet(queue, oldestWaitingMs, starts) };
}

/** A queue meets its target if nearly all jobs started in time, and no job waits longer. A pause is not a failure to start jobs. */
function isMet({ sloSeconds, pausedAt }: Queue, oldestMs: number | null, starts: QueueStarts | undefined): boolean | null {
  if (sloSeconds === null || starts === undefined || starts.starts === 0) return null;
  if (pausedAt === null && oldestMs !== null && oldestMs > sloSeconds * 1_000) return false;
  return starts.late <= starts.starts * MOST_LATE;
}
