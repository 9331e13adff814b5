import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { type QueueLoad, queueLoad } from '../../ledger/queues/queue-load.ts';
import { failingOrgs, recentRates, type TypeRates } from '../../ledger/reads/recent-rates.ts';
import { searchFailures } from '../../ledger/search/search-failures.ts';
import { type ListedWorker, listWorkers } from './list-workers.ts';

/** A job that failed lately. */
type RecentFailure = { at: Date; type: string; jobId: string; state: string; code: string; message: string };

/** What happens now, over all processes. */
export type Overview = {
  /** Jobs per second over the last ten seconds, by type, the busiest first. */
  rates: TypeRates[];
  queues: QueueLoad[];
  /** Without those that have stopped. */
  workers: ListedWorker[];
  /** The newest first. */
  failures: RecentFailure[];
};

export type OverviewParams = { /** Null: all orgs. */ orgId: string | null; failures: number };

const SECONDS = 10;
/** Failures are looked up for each org. */
const MOST_ORGS = 5;

/** Reads what happens now. The cost does not grow with the number of waiting or ended jobs. */
export async function readOverview(engine: Engine, { orgId, failures }: OverviewParams): Promise<Overview> {
  const db = engine.database.maintenance;
  const rates = await recentRates(db, { seconds: SECONDS, orgId });
  const queues = await queueLoad(db, orgId);
  const workers = (await listWorkers(engine)).filter(({ status }) => status !== 'stopped');
  const recent: RecentFailure[] = [];
  for (const failing of orgId === null ? await failingOrgs(db, MOST_ORGS) : [orgId]) {
    const page = await searchFailures(db, wholeOrg(failing), { filter: {}, limit: failures, cursor: null });
    recent.push(...page.failures.map(toRecent));
  }
  recent.sort((a, b) => b.at.getTime() - a.at.getTime());
  return { rates, queues, workers, failures: recent.slice(0, failures) };
}

type Found = Awaited<ReturnType<typeof searchFailures>>['failures'][number];

const toRecent = ({ jobId, type, state, failure, failedAt }: Found): RecentFailure => ({
  at: failedAt,
  type,
  jobId,
  state,
  code: failure.code,
  message: failure.message,
});
