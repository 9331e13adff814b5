import {
  type Claimed,
  type ClaimParams,
  claimAndStart,
  claimAndStartInTurn,
  claimAndStartWithinQueues,
  type OrgsOfTypes,
  type TurnParams,
} from '../../ledger/attempts/claim-and-start.ts';
import { claimJobs, claimJobsInTurn, claimJobsWithinQueues, leaseAhead, leaseAheadInTurn } from '../../ledger/attempts/claim-jobs.ts';
import { lockQueueRoom, lockRoom, paceQueues } from '../../ledger/attempts/claim-room.ts';
import { CLAIM_TIMEOUT_MS, type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';

/** Sends the statement that claims jobs for a worker. */
export type ClaimStatement = (params: ClaimParams) => Promise<Claimed>;

/** Two ways to claim jobs: by submission over all orgs, which costs less, or in turns between orgs. */
export type ClaimStatements = {
  inLine: ClaimStatement;
  /** Also keeps to caps where there are any. */
  inTurn(params: TurnParams): Promise<Claimed>;
  /** In turns, from governed queues too. Absent if the statements leave these queues out. */
  withinQueues?(params: GovernedParams): Promise<Claimed>;
};

/** `governed`: the queues of the ranges that have a cap or a rate. */
type GovernedParams = TurnParams & { governed: ReadonlySet<string> };

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
  const withinRoom = startsApart ? claimJobsWithinQueues : claimAndStartWithinQueues;
  const inClaim = (claim: (client: Queryable) => Promise<Claimed>) =>
    inTransaction(database.workers, claim, { statementTimeoutMs: CLAIM_TIMEOUT_MS });
  const roomOf = async (client: Queryable) => (hasCaps() ? { ...(await lockRoom(client, types)), orgsOfTypes } : undefined);
  return {
    inLine: startsApart ? (params) => claimJobs(database.claiming, params) : (params) => claimAndStart(database.claiming, params),
    inTurn: (params) =>
      hasCaps() ? inClaim(async (client) => inTurn(client, { ...params, room: await roomOf(client) })) : inTurn(database.claiming, params),
    withinQueues: ({ governed, ...params }) =>
      inClaim(async (client) => {
        const room = await roomOf(client);
        const { rooms, paced, isFull, waitMs } = await lockQueueRoom(client, [...governed]);
        const ranges = params.ranges.filter(({ queue }) => rooms.get(queue) !== 0);
        const claimed = await withinRoom(client, { ...params, ranges, room, queueRooms: rooms });
        const taken = takenOf(claimed, paced);
        if (taken.size > 0) await paceQueues(client, taken);
        return { ...claimed, queueRoom: { isFull, waitMs } };
      }),
  };
}

/** How many jobs the claim took of each queue with a rate. */
function takenOf({ jobs }: Claimed, paced: ReadonlySet<string>): Map<string, number> {
  const taken = new Map<string, number>();
  for (const { queue } of jobs) if (paced.has(queue)) taken.set(queue, (taken.get(queue) ?? 0) + 1);
  return taken;
}
