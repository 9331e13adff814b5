import {
  type Claimed,
  type ClaimParams,
  claimAndStart,
  claimAndStartInTurn,
  type OrgsOfTypes,
  type TurnParams,
} from '../../ledger/attempts/claim-and-start.ts';
import { claimJobs, claimJobsInTurn, leaseAhead, leaseAheadInTurn } from '../../ledger/attempts/claim-jobs.ts';
import { lockRoom } from '../../ledger/attempts/claim-room.ts';
import { CLAIM_TIMEOUT_MS, type Database, inTransaction } from '../../ledger/driver/database.ts';

/** Sends the statement that claims jobs for a worker. */
export type ClaimStatement = (params: ClaimParams) => Promise<Claimed>;

/** Two ways to claim jobs: by submission over all orgs, which costs less, or in turns between orgs. */
export type ClaimStatements = {
  inLine: ClaimStatement;
  /** Also keeps to caps where there are any. */
  inTurn(params: TurnParams): Promise<Claimed>;
};

/** Lease jobs that may run before their start is written. */
export const leaseAheadStatements = (database: Database): ClaimStatements => ({
  inLine: (params) => leaseAhead(database.claiming, params),
  inTurn: (params) => leaseAheadInTurn(database.claiming, params),
});

export type ClaimStatementParams = {
  database: Database;
  types: readonly string[];
  orgsOfTypes: OrgsOfTypes;
  /** Whether any served type or any org has a cap, or a type is served for some orgs only. Then claims must choose jobs. */
  hasCaps(): boolean;
  /** The statements lease jobs and do not start them. */
  startsApart: boolean;
};

export function claimStatementsOf({ database, types, orgsOfTypes, hasCaps, startsApart }: ClaimStatementParams): ClaimStatements {
  const inTurn = startsApart ? claimJobsInTurn : claimAndStartInTurn;
  const inTurnWithinCaps = (params: TurnParams) =>
    inTransaction(
      database.workers,
      async (client) => inTurn(client, { ...params, room: { ...(await lockRoom(client, types)), orgsOfTypes } }),
      { statementTimeoutMs: CLAIM_TIMEOUT_MS },
    );
  return {
    inLine: startsApart ? (params) => claimJobs(database.claiming, params) : (params) => claimAndStart(database.claiming, params),
    inTurn: (params) => (hasCaps() ? inTurnWithinCaps(params) : inTurn(database.claiming, params)),
  };
}
