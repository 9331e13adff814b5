import type { Requester } from '../../core/governance/audit-action.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { type CorrectionRequest, discardDeadLetter, fixForward, replayDeadLetter, restoreDeadLetter } from './act-on-dead-letter.ts';
import { type DeadLetterFilter, LIBRARY } from './dead-letter-request.ts';
import {
  type DeadLetterGroups,
  type DeadLetterList,
  type DeadLetterView,
  groupDeadLetters,
  listDeadLetters,
  readDeadLetter,
} from './read-dead-letters.ts';

type RunCall = <T>(work: () => Promise<T>) => Promise<T>;

type ReasonOptions = {
  /** Why, for the audit trail. */
  reason?: string;
};
type GroupOptions = {
  /** How many at most, 1 to 1000. Default 100. */
  limit?: number;
};
type PageOptions = GroupOptions & {
  /** The `nextCursor` of the page before. */
  cursor?: string | null;
};

const REASON = membersOf<ReasonOptions>({ reason: true });
const PAGE = membersOf<PageOptions>({ limit: true, cursor: true });
const FIX = [...REASON, ...membersOf<CorrectionRequest>({ payload: true, patch: true })];

/** Reads the dead-lettered jobs of an org, and acts on them. */
export class DeadLetterControls {
  readonly #engine: Engine;
  readonly #orgId: string;
  readonly #run: RunCall;
  readonly #requester: Requester;

  /** `run` starts each call, or refuses it. Without it, every call starts. */
  constructor(
    engine: Engine,
    orgId: string,
    { run = (work) => work(), requester = LIBRARY }: { run?: RunCall; requester?: Requester } = {},
  ) {
    this.#engine = engine;
    this.#orgId = orgId;
    this.#run = run;
    this.#requester = requester;
  }

  /** Returns a page of entries, newest first. By default those that nobody has acted on. */
  list(filter: DeadLetterFilter = {}, page: PageOptions = {}): Promise<DeadLetterList> {
    return this.#run(async () => {
      checkMembers(page, PAGE, 'page');
      return listDeadLetters(this.#engine, { ...wholeOrg(this.#orgId), filter, ...page });
    });
  }

  /** Returns groups of entries with the same cause, the largest first. */
  groups(filter: DeadLetterFilter = {}, { limit }: GroupOptions = {}): Promise<DeadLetterGroups> {
    return this.#run(() => groupDeadLetters(this.#engine, { ...wholeOrg(this.#orgId), filter, limit }));
  }

  /** Returns the entry of a job, or null if it has none. */
  get(jobId: string): Promise<DeadLetterView | null> {
    return this.#run(() => readDeadLetter(this.#engine, { ...wholeOrg(this.#orgId), id: jobId }));
  }

  /** Runs the job again with fresh attempts. Throws NOT_FOUND, and CONFLICT if the entry is not open. */
  replay(jobId: string, options: ReasonOptions = {}): Promise<{ jobId: string; state: 'scheduled' | 'delayed' }> {
    return this.#run(async () => replayDeadLetter(this.#engine, this.#by(jobId, options)));
  }

  /** Closes the entry without running the job. Throws NOT_FOUND, and CONFLICT if the entry is not open. */
  discard(jobId: string, options: ReasonOptions = {}): Promise<{ jobId: string; status: 'discarded'; undoUntil: Date }> {
    return this.#run(async () => discardDeadLetter(this.#engine, this.#by(jobId, options)));
  }

  /** Undoes a discard. Throws NOT_FOUND, and CONFLICT if the entry is not discarded or the time for it is over. */
  restore(jobId: string, options: ReasonOptions = {}): Promise<{ jobId: string; status: 'open' }> {
    return this.#run(async () => restoreDeadLetter(this.#engine, this.#by(jobId, options)));
  }

  /** Submits a new job with a corrected payload in the place of the dead one. Throws NOT_FOUND, CONFLICT and INVALID_REQUEST. */
  fixForward(jobId: string, options: CorrectionRequest & ReasonOptions): Promise<{ jobId: string; replacesJobId: string }> {
    return this.#run(async () => {
      checkMembers(options, FIX);
      const { reason, ...correction } = options;
      return fixForward(this.#engine, { ...this.#by(jobId, reason === undefined ? {} : { reason }), ...correction });
    });
  }

  #by(id: string, options: ReasonOptions) {
    checkMembers(options, REASON);
    return { ...wholeOrg(this.#orgId), id, requester: { ...this.#requester, reason: options.reason ?? null } };
  }
}
