import type pg from 'pg';
import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { MAINTENANCE_POLICY } from '../../core/maintenance.ts';
import type { Policy } from '../../core/policy.ts';
import type { Submission } from '../../core/submission.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import { type CancelledJob, cancelJobs } from '../../ledger/jobs/cancel-jobs.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import { openJobs, rememberJob } from '../../ledger/queues/schedule-turns.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import type { Moves } from '../report-moves.ts';

/** How many jobs of a schedule one statement looks at, and how many jobs one run replaces at most. */
const PAGE = 1_000;
/** A run that does not care about earlier jobs forgets at most this many that have ended. */
const FORGOTTEN_PER_TURN = 100;

export type ScheduleTurnsOptions = {
  /** Throws INVALID_REQUEST for a job that cannot be accepted. */
  prepare(request: { orgId: string; submission: Submission; actor: string; terms: { run: string; profile?: Policy } }): Promise<JobToWrite>;
  /** Throws if the org has no room for the job. */
  admit?(entry: JobToWrite): Promise<void>;
  write(entry: JobToWrite, client: pg.PoolClient): Promise<Written[]>;
  /** Notifies all processes. */
  hint(hint: 'cancel' | 'releases'): void;
};

export type TurnRequest = {
  schedule: Schedule;
  /** The scheduled run, which the handler is given. */
  plannedAt: Date;
  idempotencyKey: string | null;
  actor: string;
  /** The jobs that this one replaces are added. */
  moves: Moves;
};

/** `skipped`: the schedule does not overlap, and this job has not ended. */
export type Turn = { kind: 'submitted'; jobId: string } | { kind: 'skipped'; openJobId: string };

/**
 * Submits the job of one scheduled run, as the schedule's rule for overlaps says. Everything happens in the transaction that has locked
 * the schedule, so that no other process takes a turn of the schedule meanwhile, and a crash leaves either all of it or nothing.
 */
export class ScheduleTurns {
  readonly #options: ScheduleTurnsOptions;

  constructor(options: ScheduleTurnsOptions) {
    this.#options = options;
  }

  async take(client: pg.PoolClient, request: TurnRequest): Promise<Turn> {
    const { schedule, plannedAt, idempotencyKey, actor, moves } = request;
    const { orgId, overlap } = schedule;
    const earlier = await findEarlier(client, schedule);
    if (overlap === 'skip' && earlier[0] !== undefined) return { kind: 'skipped', openJobId: earlier[0] };
    const submission = { ...(schedule.submission as Submission), idempotencyKey };
    // The schedules of the system are maintenance. It makes room, so a full queue does not refuse it.
    const isMaintenance = orgId === SYSTEM_ORG_ID;
    const run = `${schedule.key} ${plannedAt.toISOString()}`;
    const terms = isMaintenance ? { run, profile: MAINTENANCE_POLICY } : { run };
    const entry = { ...(await this.#options.prepare({ orgId, submission, actor, terms })), plannedAt };
    if (!isMaintenance) await this.#options.admit?.(entry);
    const [written] = await this.#options.write(entry, client);
    const jobId = written?.kind === 'duplicate' ? written.existingId : entry.id;
    await rememberJob(client, schedule, jobId);
    // After the submission, so that a job that is refused replaces no other.
    if (overlap === 'replace') {
      const ids = earlier.filter((id) => id !== jobId);
      const reason = `replaced by the scheduled run of ${plannedAt.toISOString()}`;
      moves.push(...(await this.#cancel(client, { orgId, ids, actor, reason })));
    }
    return { kind: 'submitted', jobId };
  }

  async #cancel(client: pg.PoolClient, params: { orgId: string; ids: string[]; actor: string; reason: string }): Promise<Moves> {
    if (params.ids.length === 0) return [];
    const cancelled = await cancelJobs(client, { ...params, projectId: null, force: false });
    onTransactionEnd(client, () => {
      if (cancelled.some(hasHandler)) this.#options.hint('cancel');
      if (cancelled.some(({ kind }) => kind === 'cancelled' || kind === 'retry_dropped')) this.#options.hint('releases');
    });
    return cancelled.map(({ moved }) => moved);
  }
}

const hasHandler = ({ kind, previousState }: CancelledJob): boolean =>
  kind === 'requested' || (kind === 'cancelled' && previousState === 'running');

/** Returns the jobs of earlier runs that have not ended: one if the rule is to skip, none if they do not matter. */
async function findEarlier(client: pg.PoolClient, schedule: Schedule): Promise<string[]> {
  if (schedule.overlap === 'queue') {
    await openJobs(client, schedule, FORGOTTEN_PER_TURN);
    return [];
  }
  for (;;) {
    const { ids, forgotten, isAll } = await openJobs(client, schedule, PAGE);
    // Each page forgets what has ended, so a page that is all open is the first of those that are left.
    const isEnough = schedule.overlap === 'skip' ? ids.length > 0 : forgotten === 0;
    if (isAll || isEnough) return ids;
  }
}
