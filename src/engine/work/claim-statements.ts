import {
  type Claimed,
  type ClaimParams,
  claimAndStart,
  claimAndStartCapped,
  type OrgsOfTypes,
} from '../../ledger/attempts/claim-and-start.ts';
import { claimCappedJobs, claimJobs, leaseAhead } from '../../ledger/attempts/claim-jobs.ts';
import { lockRoom } from '../../ledger/attempts/claim-room.ts';
import { CLAIM_TIMEOUT_MS, type Database, inTransaction } from '../../ledger/driver/database.ts';

/** Sends the statement that claims jobs for a worker. */
export type ClaimStatement = (params: ClaimParams) => Promise<Claimed>;

/** Leases jobs that may run before their start is written. */
export const leaseAheadStatement =
  (database: Database): ClaimStatement =>
  (params) =>
    leaseAhead(database.claiming, params);

export type ClaimStatementParams = {
  database: Database;
  types: readonly string[];
  orgsOfTypes: OrgsOfTypes;
  /** Whether any served type or any org has a cap, or a type is served for some orgs only. Then claims must choose jobs. */
  hasCaps(): boolean;
  /** The statement leases jobs and does not start them. */
  startsApart: boolean;
};

/** Chooses the statement for each claim. It keeps to caps and served orgs, if there are any, and starts the jobs unless they start apart. */
export function claimStatementOf({ database, types, orgsOfTypes, hasCaps, startsApart }: ClaimStatementParams): ClaimStatement {
  const claim: ClaimStatement = startsApart
    ? (params) => claimJobs(database.claiming, params)
    : (params) => claimAndStart(database.claiming, params);
  const claimCapped: ClaimStatement = (params) =>
    inTransaction(
      database.workers,
      async (client) => {
        const room = { ...(await lockRoom(client, types)), orgsOfTypes };
        return startsApart ? claimCappedJobs(client, params, room) : claimAndStartCapped(client, params, room);
      },
      { statementTimeoutMs: CLAIM_TIMEOUT_MS },
    );
  return (params) => (hasCaps() ? claimCapped(params) : claim(params));
}
