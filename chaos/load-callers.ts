/** Clients of the execution API that submit jobs at a fixed rate, and then compare its reports with the responses. */

import { KINDS, type WorkKind } from '../src/core/execution/kinds.ts';
import { type Credentials, ExecutionApi } from '../src/simulator/api.ts';
import { Histogram } from '../src/simulator/histogram.ts';
import { openLoop } from '../src/simulator/pace.ts';
import { type PlannedJob, planRun } from '../src/simulator/plan.ts';
import { count } from '../src/simulator/stats.ts';
import { isFinal } from '../src/simulator/watch-jobs.ts';
import type { ReportRow } from '../src/simulator/wire.ts';

export type LoadParams = { url: string; clients: number; rate: number; seconds: number; seed: number };

export type Load = {
  /** The time from the planned moment of a submission to its response. */
  readonly submitMs: Histogram;
  readonly statuses: ReadonlyMap<number, number>;
  /** The kind of each accepted job, by client and job id. */
  readonly accepted: readonly ReadonlyMap<string, WorkKind>[];
  readonly tookSeconds: number;
  readonly clients: readonly Credentials[];
};

export type Comparison = {
  /** Accepted jobs that are in no report, and jobs in reports that no client submitted. */
  lost: number;
  unknown: number;
  unfinished: number;
  /** Jobs that ended otherwise than their kind says. */
  wrong: number;
  /** From the queue to the worker, by the server's own events. */
  waitMs: Histogram;
};

/** None takes longer than 50 ms at a time scale of 0.01, and one in ten fails. */
const SHORT_KINDS = new Map<WorkKind, number>([
  ['SUCCESS_FAST', 4],
  ['PAYLOAD_SMALL', 2],
  ['PAYLOAD_MEDIUM', 2],
  ['PAYLOAD_LARGE', 1],
  ['FAIL_IMMEDIATE', 0.5],
  ['FAIL_AFTER_RETRYABLE', 0.5],
]);

export async function submitSteadily({ url, rate, seconds, seed, ...params }: LoadParams): Promise<Load> {
  const api = new ExecutionApi({ url });
  const clients: Credentials[] = [];
  while (clients.length < params.clients) clients.push(await api.register());
  const accepted = clients.map(() => new Map<string, WorkKind>());
  const submitMs = new Histogram();
  const statuses = new Map<number, number>();
  const submit = async (plan: PlannedJob, intendedMs: number) => {
    const { key, kind, client } = plan;
    const { apiKey } = clients[client] as Credentials;
    const { status, body } = await api.submit(apiKey, { type: 'EXECUTE', work_kind: kind, idempotency_key: key });
    submitMs.add(performance.now() - intendedMs);
    count(statuses, status);
    if (status === 202) accepted[client]?.set(body.job_id, kind);
  };
  const jobs = Math.round(rate * seconds);
  const plans = planRun({
    choice: { order: 'mix', weights: SHORT_KINDS },
    jobs,
    seed,
    clients: clients.length,
    farFutureMs: 0,
  });
  const underWay: Promise<void>[] = [];
  const pace = openLoop(rate);
  const startedMs = performance.now();
  for (const plan of plans) {
    const permit = (await pace.next()).value;
    if (permit) underWay.push(submit(plan, permit.intendedMs));
  }
  await Promise.all(underWay);
  api.close();
  return { submitMs, statuses, accepted, clients, tookSeconds: (performance.now() - startedMs) / 1_000 };
}

/** Reads the reports of every client and compares them with the responses it got. */
export async function compareReports(url: string, { clients, accepted }: Load): Promise<Comparison> {
  const api = new ExecutionApi({ url });
  const comparison = { lost: 0, unknown: 0, unfinished: 0, wrong: 0, waitMs: new Histogram() };
  for (const [index, { apiKey }] of clients.entries()) {
    const kinds = new Map(accepted[index]);
    for await (const row of api.reports(apiKey)) {
      const kind = kinds.get(row.job_id);
      kinds.delete(row.job_id);
      if (kind === undefined) comparison.unknown++;
      else if (!isFinal(row.state)) comparison.unfinished++;
      else if (row.state !== KINDS[kind].expected) comparison.wrong++;
      const waitedMs = waitOf(row);
      if (waitedMs !== null) comparison.waitMs.add(waitedMs);
    }
    comparison.lost += kinds.size;
  }
  api.close();
  return comparison;
}

/** Null for a job whose events do not tell. */
function waitOf({ events }: ReportRow): number | null {
  const at = (name: string) => Date.parse(events.find((event) => event.event_name === name)?.timestamp ?? '');
  const waitedMs = at('job.running') - at('job.queued');
  return Number.isNaN(waitedMs) ? null : waitedMs;
}
