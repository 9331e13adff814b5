import { JOB_STATES } from '../../core/states.ts';
import type { Breakdown } from '../../ledger/reads/count-jobs.ts';
import { countJobs, type JobCounts } from '../../services/jobs/count-jobs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { latencyText } from '../duration-text.ts';
import { readDuration, readDurationMs, readWords } from '../option-values.ts';
import { checkOrgOptions, chosenOrgs, ORG_OPTIONS } from '../org-choice.ts';
import { textFacts, textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const BREAKDOWNS = ['TYPE', 'PRIORITY'] as const satisfies readonly Breakdown[];

const OPTIONS = {
  ...ORG_OPTIONS,
  range: { type: 'string', value: 'DURATION', help: 'count jobs that ended within this time; default 1h' },
  by: { type: 'string', multiple: true, value: 'A,B', help: 'break the counts down by type, priority or both' },
} as const;

type OrgCounts = JobCounts & { org: string; orgId: string };

export const stats = defineCommand({
  name: 'stats',
  summary: 'show how many jobs wait, run and have ended, with rates and latencies',
  options: OPTIONS,
  details: 'Ended jobs count if they ended within --range. Waiting and running jobs always count.',
  examples: ['millrace stats', 'millrace stats --org acme --range 24h --by type', 'millrace stats --all-orgs --json'],
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  checkOrgOptions(values);
  if (readDurationMs(values.range, 'range') === 0) throw new UsageError('--range must be greater than zero.', 'stats');
  const params = { timeRange: readDuration(values.range, 'range'), breakdownBy: readWords(values.by, 'by', BREAKDOWNS) };
  const orgs = await withEngine(invocation, async (engine) => {
    const counted: OrgCounts[] = [];
    for (const { id, slug } of await chosenOrgs(engine, values))
      counted.push({ org: slug, orgId: id, ...(await countJobs(engine, { ...params, orgId: id })) });
    return counted;
  });
  if (values['all-orgs'] === true) out.answer({ orgs }, () => manyLines(orgs));
  else out.answer(orgs[0], () => orgs.flatMap(oneLines));
  return EXIT.ok;
}

const manyLines = (orgs: readonly OrgCounts[]): string[] =>
  orgs.length === 0
    ? ['No org has jobs.']
    : [
        ...textTable(
          ['org', ...JOB_STATES],
          orgs.map(({ org, states }) => [org, ...JOB_STATES.map((state) => String(states[state]))]),
        ),
        ...orgs.flatMap((counts) => breakdownLines(counts).map((line) => (line === '' ? line : `${counts.org}  ${line}`))),
      ];

function oneLines(counts: OrgCounts): string[] {
  const { org, states, submissionRate, completionRate, failureRate, queueLatency, executionTime } = counts;
  const rate = (perSecond: number) => `${perSecond.toFixed(2)} per second`;
  const latency = (found: JobCounts['queueLatency']) =>
    found === null ? null : `p50 ${latencyText(found.p50Ms)}, p99 ${latencyText(found.p99Ms)}, at most ${latencyText(found.maxMs)}`;
  return [
    ...textFacts([
      ['org', org],
      ...JOB_STATES.map((state) => [state, String(states[state])] as const),
      ['submission rate', rate(submissionRate)],
      ['completion rate', rate(completionRate)],
      ['failure rate', rate(failureRate)],
      ['waiting time', latency(queueLatency)],
      ['running time', latency(executionTime)],
    ]),
    ...breakdownLines(counts),
  ];
}

function breakdownLines({ byType, byPriority }: JobCounts): string[] {
  const table = (name: string, found: JobCounts['byType'] | JobCounts['byPriority']) => {
    const rows = Object.entries(found ?? {}).map(([key, { pending, running, completed, failed }]) => [
      key,
      ...[pending, running, completed, failed].map(String),
    ]);
    return rows.length === 0 ? [] : ['', ...textTable([name, 'waiting', 'running', 'completed', 'failed'], rows)];
  };
  return [...table('type', byType), ...table('priority', byPriority)];
}
