import type { ClaimParams, StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import type { EventHub } from '../events.ts';
import type { ClaimStatements } from './claim-statements.ts';
import type { Claims } from './claims.ts';
import type { LeasedAhead } from './leased-ahead.ts';
import type { QueueReserve } from './queue-reserve.ts';
import type { Which } from './ready-ranges.ts';

export type ProducerOptions = {
  claim: ClaimStatements;
  /** Lease jobs beyond the free slots. */
  leaseAhead: ClaimStatements;
  leasedAhead: Pick<LeasedAhead, 'wanted' | 'length' | 'onClaimed'>;
  workerId: number;
  claims: Claims;
  events: EventHub;
  slots: number;
  /** The last free slots, so many of them, are only for newcomers: orgs of which the worker has no job or few. */
  reservedSlots(): number;
  queues: readonly string[];
  types: readonly string[];
  /** The queues in which orgs take turns. */
  fairQueues(): ReadonlySet<string>;
  /** The queues with a cap or a rate. */
  governedQueues(): ReadonlySet<string>;
  queueReserve: QueueReserve;
  /** Whether any served type or any org has a cap, so that claims must count running jobs first. */
  hasCaps(): boolean;
  busySlots(): number;
  /** Receives the jobs of a claim. They are started, or only leased if they were leased ahead or the worker starts jobs apart. */
  onClaimed(jobs: readonly StartedJob[], claim: Claim): Promise<void>;
  /** Calls the handlers of the jobs that `onClaimed` received. */
  runClaimed(): void;
  /** A statement failed a while ago, so the ledger may have given this worker jobs that it does not know. */
  reconcile(): Promise<void>;
};

export type Claim = { claimNo: number; sentMs: number; isAhead: boolean };

/** `isForOld`: jobs that were submitted long ago may be ready now, below the floors of the ranges. */
export type Wake = { isForOld?: boolean };

export type ServedJob = { readonly type: string; readonly queue: string };

export type SentClaim = ClaimParams & Claim & { runs: number; wakes: number; changes: number; order: Order; which?: Which };

/** `newcomers`: in turns, for the reserved slots. */
export type Order = 'line' | 'turns' | 'newcomers';
