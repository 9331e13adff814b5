import { PRIORITIES } from '../../core/priority.ts';
import { NO_ORG, type StartedJob } from '../../ledger/attempts/claim-and-start.ts';

/** After the first claim in one line that left jobs waiting, and then after so many, the next claim looks whether other orgs wait. */
const LOOK_AFTER = 7;
/** To find the orgs, the database reads the index entries of claimed jobs too. A long transaction may keep so many that it takes this long. */
const SLOW_MS = 50;
/** After such a claim, claims are sent in one line for so many times as long. */
const REST_FACTOR = 4;
/** Orgs that are not among the last ones served count as never served. */
const MAX_REMEMBERED = 256;

export type ObservedTurns = { jobs: readonly StartedJob[]; orgs: number; foundMs: number; nowMs: number };

/**
 * Decides whether the next claim lets orgs take turns, and remembers which orgs were served last. Claims in one line cost less, and are
 * the same while one org waits. So a worker claims in turns only while several orgs wait, and looks for others from time to time.
 */
export class OrgTurns {
  /** In the order in which they were last served: a Map keeps the order of insertion. */
  readonly lastTurns = new Map<string, number>();
  /** By priority: where a claim begins to look for orgs, among more orgs than it can serve. */
  readonly cursors: string[] = PRIORITIES.map(() => NO_ORG);
  #isContested = false;
  #turn = 0;
  #claimsInLine = LOOK_AFTER - 1;
  #restUntilMs = 0;

  isDue(nowMs: number): boolean {
    return (this.#isContested || this.#claimsInLine >= LOOK_AFTER) && nowMs >= this.#restUntilMs;
  }

  /** A claim in one line returned. `hasMore`: it may have left jobs waiting. */
  onLine({ jobs, hasMore }: { jobs: readonly StartedJob[]; hasMore: boolean }): void {
    this.#claimsInLine = hasMore ? this.#claimsInLine + 1 : LOOK_AFTER - 1;
    this.#isContested = hasMore && (this.#isContested || jobs.some(({ orgId }) => orgId !== jobs[0]?.orgId));
  }

  /** A claim for reserved slots found jobs of newcomers, who may have more. */
  onNewcomers(): void {
    this.#isContested = true;
  }

  /** A claim in turns returned, with its jobs in the order of turns. */
  onTurns({ jobs, orgs, foundMs, nowMs }: ObservedTurns): void {
    this.#isContested = orgs > 1;
    this.#claimsInLine = 0;
    this.#remember(jobs);
    if (foundMs > SLOW_MS) this.#restUntilMs = nowMs + REST_FACTOR * foundMs;
  }

  #remember(jobs: readonly StartedJob[]): void {
    for (const { orgId } of jobs) {
      this.lastTurns.delete(orgId);
      this.lastTurns.set(orgId, ++this.#turn);
    }
    for (const orgId of this.lastTurns.keys()) {
      if (this.lastTurns.size <= MAX_REMEMBERED) break;
      this.lastTurns.delete(orgId);
    }
    for (const [priority, served] of Map.groupBy(jobs, (job) => job.priority)) this.cursors[priority] = this.#nextAfter(priority, served);
  }

  /** The first org of the ring that was served. The orgs before it had jobs of the worker, or were served later than it. */
  #nextAfter(priority: number, served: readonly StartedJob[]): string {
    const ring = served.map(({ orgId }) => orgId).toSorted();
    return ring.find((orgId) => orgId > (this.cursors[priority] ?? NO_ORG)) ?? (ring[0] as string);
  }
}
