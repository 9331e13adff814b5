import { claimCappedJobs, claimJobs, leaseAhead } from '../../ledger/attempts/claim-jobs.ts';
import { lockRoom } from '../../ledger/attempts/claim-room.ts';
import { type Taken, type TakeParams, takeCappedJobs, takeJobs } from '../../ledger/attempts/take-jobs.ts';
import { CLAIM_TIMEOUT_MS, type Database, inTransaction } from '../../ledger/driver/database.ts';

/** Sends a statement that gives a worker jobs. */
export type Take = (params: TakeParams) => Promise<Taken>;

/** Leases jobs that may run before their start is written. */
export const takingAhead =
  (database: Database): Take =>
  (params) =>
    leaseAhead(database.claiming, params);

export type TakingParams = {
  database: Database;
  types: readonly string[];
  /** Whether any served type or any org has a cap, so that claims must count first. */
  hasCaps(): boolean;
  /** What is given is under lease and not started yet. */
  startsApart: boolean;
};

/** How a worker gets its jobs: within the caps where there are any, and started by the claim unless they start apart. */
export function takingOf({ database, types, hasCaps, startsApart }: TakingParams): Take {
  const take: Take = startsApart
    ? (params) => claimJobs(database.claiming, params)
    : (params) => takeJobs(database.claiming, params);
  const takeCapped: Take = (params) =>
    inTransaction(
      database.workers,
      async (client) => {
        const room = await lockRoom(client, types);
        return startsApart ? claimCappedJobs(client, params, room) : takeCappedJobs(client, params, room);
      },
      { statementTimeoutMs: CLAIM_TIMEOUT_MS },
    );
  return (params) => (hasCaps() ? takeCapped(params) : take(params));
}
