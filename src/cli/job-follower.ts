import type { Failure } from '../core/failure.ts';
import type { JobSummary, Progress, StateTransition } from '../core/job.ts';
import { wholeOrg } from '../core/owner.ts';
import { isTerminal, type JobState } from '../core/states.ts';
import type { Engine } from '../engine/engine.ts';
import type { Org } from '../services/access/list-orgs.ts';
import { searchJobs } from '../services/jobs/search-jobs.ts';

export type FollowedJob = { readonly id: string; readonly org: Org };

export type JobNews =
  /** `failure` is the newest one of the job, for the newest change if that is bad news. */
  | { kind: 'state'; org: Org; job: JobSummary; transition: StateTransition; failure: Failure | null }
  | { kind: 'progress'; org: Org; job: JobSummary; progress: Progress }
  | { kind: 'gone'; org: Org; jobId: string };

type Seen = { changes: number; updatedAtMs: number; progressAtMs: number };

const PAGE = 1_000;
const BAD_NEWS: ReadonlySet<JobState> = new Set(['retrying', 'failed', 'dead_letter']);

/** Finds out, at each look, what is new about a number of jobs. */
export class JobFollower {
  readonly #engine: Engine;
  readonly #open: Map<string, FollowedJob>;
  readonly #seen = new Map<string, Seen>();
  /** The state in which each job ended. */
  readonly ended = new Map<string, JobState>();

  constructor(engine: Engine, jobs: readonly FollowedJob[]) {
    this.#engine = engine;
    this.#open = new Map(jobs.map((job) => [job.id, job]));
  }

  /** How many jobs have not ended. */
  get left(): number {
    return this.#open.size;
  }

  /** The first look returns the newest change of each job, and later ones what happened since. */
  async look(): Promise<JobNews[]> {
    const news: JobNews[] = [];
    for (const [org, followed] of Map.groupBy(this.#open.values(), (each) => each.org)) {
      const ids = followed.map(({ id }) => id);
      const { jobs } = await searchJobs(this.#engine, { ...wholeOrg(org.id), filter: { ids }, page: { limit: PAGE, total: false } });
      const changed = await Promise.all(jobs.map((job) => this.#newsOf(job, org)));
      news.push(...changed.flat());
      const found = new Set(jobs.map(({ id }) => id));
      for (const id of ids) if (!found.has(id) && this.#open.delete(id)) news.push({ kind: 'gone', org, jobId: id });
    }
    return news;
  }

  async #newsOf(job: JobSummary, org: Org): Promise<JobNews[]> {
    const seen = this.#seen.get(job.id) ?? null;
    const [updatedAtMs, progressAtMs] = [job.updatedAt.getTime(), job.progress?.updatedAt.getTime() ?? 0];
    if (seen !== null && seen.updatedAtMs === updatedAtMs && seen.progressAtMs === progressAtMs) return [];
    const history = await this.#engine.reader.history(wholeOrg(org.id), job.id);
    const newest = history.at(-1);
    // The job moved on after its row was read. The next look tells the change together with its failure, which is in the row.
    if (newest !== undefined && newest.to !== job.state) return [];
    this.#seen.set(job.id, { changes: history.length, updatedAtMs, progressAtMs });
    const fresh = seen === null ? history.slice(-1) : history.slice(seen.changes);
    const news: JobNews[] = fresh.map((transition) => {
      const failure = transition === newest && BAD_NEWS.has(transition.to) ? job.lastFailure : null;
      return { kind: 'state', org, job, transition, failure };
    });
    if (job.progress !== undefined && progressAtMs > (seen?.progressAtMs ?? 0))
      news.unshift({ kind: 'progress', org, job, progress: job.progress });
    if (isTerminal(job.state) && this.#open.delete(job.id)) this.ended.set(job.id, job.state);
    return news;
  }
}
