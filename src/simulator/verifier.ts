import { type ExpectedOutcome, KINDS, WORK_KINDS, type WorkKind } from '../core/execution/kinds.ts';
import { EXECUTION_STATES, type ExecutionState, isAllowed } from '../core/execution/states.ts';
import { judge, judgeRefusal } from './check.ts';
import type { Away } from './host.ts';
import { count } from './stats.ts';
import type { ReportRow } from './wire.ts';
import type { Observed, ObservedJob } from './world.ts';

export type Finding = { readonly kind: WorkKind | null; readonly jobId: string | null; readonly problem: string };

export type KindTally = {
  readonly kind: WorkKind;
  readonly expected: ExpectedOutcome;
  /** How often it ran, and how often it ended as expected. */
  driven: number;
  asExpected: number;
  missed: number;
  jobs: number;
};

/** How often a transition from one state to another was observed. */
export type PairCount = { from: ExecutionState; to: ExecutionState; isAllowed: boolean; count: number };

export type VerifierOptions = {
  readonly expectations: ReadonlyMap<WorkKind, ExpectedOutcome>;
  readonly timeScale: number;
};

type ExpectedJob = { observed: Observed; job: ObservedJob };

const MAX_FINDINGS = 1_000;

/** Compares the report of the server on every job with its work kind. */
export class Verifier {
  readonly findings: Finding[] = [];
  readonly tallies = new Map<WorkKind, KindTally>();
  /** The number of all findings. Only the first are kept. */
  problemCount = 0;
  /** A job that became due while the server was down may be late until the server is up again. */
  away: Away | undefined;
  readonly #expectations: ReadonlyMap<WorkKind, ExpectedOutcome>;
  readonly #timeScale: number;
  readonly #open = new Map<string, ExpectedJob>();
  readonly #heard = new Set<string>();
  readonly #differing = new Set<Observed>();
  readonly #steps = new Map<string, number>();

  constructor({ expectations, timeScale }: VerifierOptions) {
    this.#expectations = expectations;
    this.#timeScale = timeScale;
  }

  /** Adds the observations of a driver. */
  add(observed: Observed): void {
    const { kind } = observed.plan;
    const tally = this.#tally(kind);
    tally.driven++;
    tally.missed += observed.missed;
    tally.jobs += observed.jobs.length;
    for (const job of observed.jobs) {
      if (this.#open.has(job.jobId)) this.#find(observed, job.jobId, 'its id was given to two submissions');
      this.#open.set(job.jobId, { observed, job });
    }
    const expected = this.#expected(kind);
    for (const problem of [...observed.problems, ...judgeRefusal(observed, expected)]) {
      this.#find(observed, observed.jobs[0]?.jobId ?? null, problem);
    }
  }

  /** Checks a row of the report. `known` are the problems of the job that are known already. */
  check(row: ReportRow, known: readonly string[] = []): void {
    this.#countSteps(row);
    const docket = this.#open.get(row.job_id);
    const { observed = null } = docket ?? {};
    if (this.#heard.has(row.job_id)) this.#find(observed, row.job_id, 'is reported twice');
    this.#heard.add(row.job_id);
    const problems =
      docket === undefined ? ['is a job that was never submitted'] : judge({ ...docket, row, ...this.#terms(docket.observed.plan.kind) });
    for (const problem of [...known, ...problems]) this.#find(observed, row.job_id, problem);
  }

  /** Finds jobs that are missing in the report. Call this after the last row. */
  close(): void {
    for (const [jobId, { observed }] of this.#open) {
      if (!this.#heard.has(jobId)) this.#find(observed, jobId, 'was accepted and is not in the report: lost');
    }
    for (const { plan } of this.#differing) this.#tally(plan.kind).asExpected--;
    for (const tally of this.tallies.values()) tally.asExpected += tally.driven;
  }

  /** All 49 pairs of states, the allowed ones first. */
  pairs(): PairCount[] {
    const all = EXECUTION_STATES.flatMap((from) =>
      EXECUTION_STATES.map((to) => {
        return { from, to, isAllowed: isAllowed(from, to), count: this.#steps.get(`${from} ${to}`) ?? 0 };
      }),
    );
    return all.sort((a, b) => Number(b.isAllowed) - Number(a.isAllowed));
  }

  kinds(): KindTally[] {
    return WORK_KINDS.flatMap((kind) => this.tallies.get(kind) ?? []);
  }

  #find(observed: Observed | null, jobId: string | null, problem: string): void {
    this.problemCount++;
    if (observed !== null) this.#differing.add(observed);
    if (this.findings.length < MAX_FINDINGS) this.findings.push({ kind: observed?.plan.kind ?? null, jobId, problem });
  }

  #countSteps({ events }: ReportRow): void {
    for (const { prev_state, next_state } of events) {
      if (prev_state !== null) count(this.#steps, `${prev_state} ${next_state}`);
    }
  }

  #terms(kind: WorkKind) {
    return { expected: this.#expected(kind), timeScale: this.#timeScale, away: this.away };
  }

  #expected(kind: WorkKind): ExpectedOutcome {
    return this.#expectations.get(kind) ?? KINDS[kind].expected;
  }

  #tally(kind: WorkKind): KindTally {
    const known = this.tallies.get(kind);
    if (known !== undefined) return known;
    const tally = { kind, expected: this.#expected(kind), driven: 0, asExpected: 0, missed: 0, jobs: 0 };
    this.tallies.set(kind, tally);
    return tally;
  }
}
