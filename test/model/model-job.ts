/** What the model knows of one job, and the rules that need nothing but jobs. Written from the documents, not from the SQL. */
import type { DependencyType } from '../../src/core/dependencies.ts';
import type { Policy } from '../../src/core/policy.ts';
import type { JobState } from '../../src/core/states.ts';
import type { Reason } from '../../src/core/transitions.ts';

export type Entry = {
  from: JobState | null;
  to: JobState;
  reason: Reason;
  leaseSeq: number;
  attempt: number;
  round: number;
  workerId: number | null;
  atMs: number;
  /** The rescuer wrote it, because the worker may have called the handler before it died. */
  presumed: boolean;
};

/** How many jobs with a key run at the same time, and how many start within a time. */
export type ModelLimit = { key: string; concurrency: number | null; rate: { count: number; perMs: number } | null };

/** A limit let this job start. The lease is the newest that the job had at that time. */
export type Grant = { limit: ModelLimit; job: ModelJob; leaseSeq: number; atMs: number; startedAtMs: number | null; isOver: boolean };

export type ModelJob = {
  id: string;
  /** Its place in the order of submission. */
  order: number;
  type: string;
  policy: Policy;
  priority: number;
  state: JobState;
  attempts: number;
  maxAttempts: number;
  round: number;
  leaseSeq: number;
  /** The worker that holds the lease. */
  holder: number | null;
  /** When it was leased; null if its handler may be called before its start is written. */
  claimedAtMs: number | null;
  startedAtMs: number | null;
  /** Its handler is done, its completion waits for its children. */
  held: boolean;
  runAtMs: number;
  deadlineMs: number | null;
  dependsOn: readonly ModelJob[];
  dependencyType: DependencyType;
  parent: ModelJob | null;
  cancel: 'soft' | 'force' | null;
  percent: number | null;
  checkpoint: { text: string; leaseSeq: number } | null;
  history: Entry[];
  limit: ModelLimit | null;
  payload: unknown;
};

/** A lease that a claim gave, for good: the worker may use it long after it lost the job. */
export type GivenLease = { job: ModelJob; seq: number; leaseSeq: number; workerId: number; claimNo: number };

const ENDS: readonly JobState[] = ['completed', 'failed', 'dead_letter', 'cancelled'];

export const hasEnded = (job: ModelJob): boolean => ENDS.includes(job.state);

/** Whether the lease is still the one that its worker holds the job by. */
export const isHeldBy = ({ job, leaseSeq, workerId }: GivenLease): boolean => job.leaseSeq === leaseSeq && job.holder === workerId;

/** Whether its worker may have called the handler although no start is written. */
export const mayRun = ({ state, holder, claimedAtMs }: ModelJob): boolean =>
  state === 'scheduled' && holder !== null && claimedAtMs === null;

export const mayRunBy = (lease: GivenLease): boolean => isHeldBy(lease) && mayRun(lease.job);

export const runsBy = (lease: GivenLease): boolean => isHeldBy(lease) && lease.job.state === 'running';

export type Verdict = { kind: 'wait' } | { kind: 'proceed' } | { kind: 'end'; to: JobState; reason: Reason };

/** What becomes of a job, judged by the jobs it waits for. Of several bad ends the first in this order counts. */
export function verdictOf({ dependsOn, dependencyType }: Pick<ModelJob, 'dependsOn' | 'dependencyType'>): Verdict {
  if (dependsOn.length === 0) return { kind: 'proceed' };
  if (dependencyType === 'AFTER_ANY') return { kind: dependsOn.some(hasEnded) ? 'proceed' : 'wait' };
  for (const to of ['failed', 'dead_letter', 'cancelled'] as const) {
    if (!dependsOn.some((job) => job.state === to)) continue;
    return { kind: 'end', to, reason: dependencyType === 'CHAIN' ? 'chain_stopped' : `dependency_${to}` };
  }
  return { kind: dependsOn.every((job) => job.state === 'completed') ? 'proceed' : 'wait' };
}

export type Submitted = {
  id: string;
  type: string;
  policy: Policy;
  priority: number;
  delayMs: number;
  key: string | null;
  fingerprint: string | null;
  dependsOn: readonly ModelJob[];
  dependencyType: DependencyType;
  /** The job whose completion waits for this one. */
  parent: ModelJob | null;
  limit: ModelLimit | null;
  payload: unknown;
};

export type Ending = {
  to: JobState;
  reason: Reason;
  delayMs: number | null;
  refunds: boolean;
  holds: boolean;
};

/** A lease whose handler was called `agoMs` ago, without a start in the ledger. */
export type LateEnd = { lease: GivenLease; agoMs: number };

/** How often someone retried the job after a permanent failure of its own. The next such failure may make it poison. */
export const permanentFailuresOf = ({ history }: ModelJob): number =>
  history.filter(({ reason }, index) => {
    const before = history[index - 1]?.reason;
    return reason === 'manual_retry' && (before === 'permanent_failure' || before === 'poison');
  }).length;
