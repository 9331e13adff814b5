import type { Engine } from '../../engine/engine.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { MAX_NEXT_RUNS } from '../../services/schedules/next-runs.ts';
import { noSuchSchedule, ScheduleControls } from '../../services/schedules/schedule-controls.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { readInteger } from '../option-values.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { textFacts } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const ONE_SCHEDULE = { takes: 'KEY', minArgs: 1, maxArgs: 1 } as const;
const REASON_OPTIONS = {
  ...ONE_ORG_OPTION,
  reason: { type: 'string', value: 'TEXT', help: 'the reason, which "schedules show" shows' },
} as const;
const COUNT_OPTIONS = {
  ...ONE_ORG_OPTION,
  count: { type: 'string', value: 'N', help: `how many times, at most ${MAX_NEXT_RUNS}; default: 10` },
} as const;

type Call = Invocation<typeof ONE_ORG_OPTION>;

/** Runs the work with the schedules of the chosen org and the key that the command was given. */
function withSchedules<T>(invocation: Call, work: (schedules: ScheduleControls, key: string) => Promise<T>): Promise<T> {
  return withEngine(invocation, async (engine: Engine) => {
    const { id } = await chosenOrg(engine, invocation.values);
    return work(new ScheduleControls(engine, id), invocation.args[0] as string);
  });
}

export const schedulesShow = defineCommand({
  name: 'schedules show',
  summary: 'show one schedule, its job and its next run',
  ...ONE_SCHEDULE,
  options: ONE_ORG_OPTION,
  examples: ['millrace schedules show nightly-report', 'millrace schedules show nightly-report --org acme --json'],
  async run(invocation: Call) {
    const schedule = await withSchedules(invocation, async (schedules, key) => {
      const found = await schedules.get(key);
      if (found === null) throw noSuchSchedule(key);
      return found;
    });
    invocation.out.answer({ schedule }, () => factsOf(schedule));
    return EXIT.ok;
  },
});

export const schedulesNext = defineCommand({
  name: 'schedules next',
  summary: 'show the next times of a schedule, with the changes of the clocks in its zone',
  ...ONE_SCHEDULE,
  options: COUNT_OPTIONS,
  details: 'It shows the times of a paused schedule too, as if it were not paused.',
  examples: ['millrace schedules next nightly-report', 'millrace schedules next nightly-report --count 3 --json'],
  async run(invocation: Invocation<typeof COUNT_OPTIONS>) {
    const count = readInteger(invocation.values.count, 'count');
    if (count !== undefined && count > MAX_NEXT_RUNS) throw new UsageError(`--count is at most ${MAX_NEXT_RUNS}.`);
    const times = await withSchedules(invocation, (schedules, key) => schedules.next(key, count));
    invocation.out.answer({ times }, () => times.map((time) => time.toISOString()));
    return EXIT.ok;
  },
});

export const schedulesPause = defineCommand({
  name: 'schedules pause',
  summary: 'submit no more jobs of a schedule; jobs that it submitted continue',
  ...ONE_SCHEDULE,
  options: REASON_OPTIONS,
  examples: ['millrace schedules pause nightly-report --reason "the provider is down"'],
  async run(invocation: Invocation<typeof REASON_OPTIONS>) {
    const { reason } = invocation.values;
    const schedule = await withSchedules(invocation, (schedules, key) => schedules.pause(key, { reason }));
    invocation.out.answer({ schedule }, () => [`Schedule ${schedule.key} is paused.`]);
    return EXIT.ok;
  },
});

export const schedulesResume = defineCommand({
  name: 'schedules resume',
  summary: 'submit jobs of a paused schedule again, from its next time on',
  ...ONE_SCHEDULE,
  options: REASON_OPTIONS,
  examples: ['millrace schedules resume nightly-report'],
  async run(invocation: Invocation<typeof REASON_OPTIONS>) {
    const { reason } = invocation.values;
    const schedule = await withSchedules(invocation, (schedules, key) => schedules.resume(key, { reason }));
    invocation.out.answer({ schedule }, () => [`Schedule ${schedule.key} runs next at ${schedule.nextAt.toISOString()}.`]);
    return EXIT.ok;
  },
});

export const schedulesRun = defineCommand({
  name: 'schedules run',
  summary: 'submit the job of a schedule now, also if it is paused',
  ...ONE_SCHEDULE,
  options: ONE_ORG_OPTION,
  details: 'The next run of the schedule stays the same. If its overlap is skip, the command fails while an earlier job has not ended.',
  examples: ['millrace schedules run nightly-report'],
  async run(invocation: Call) {
    const job = await withSchedules(invocation, (schedules, key) => schedules.run(key));
    invocation.out.answer(job, () => [`Submitted job ${job.jobId}.`]);
    return EXIT.ok;
  },
});

export const schedulesDelete = defineCommand({
  name: 'schedules delete',
  summary: 'delete a schedule; jobs that it submitted continue',
  ...ONE_SCHEDULE,
  options: ONE_ORG_OPTION,
  examples: ['millrace schedules delete nightly-report'],
  async run(invocation: Call) {
    const key = await withSchedules(invocation, async (schedules, name) => {
      if (!(await schedules.remove(name))) throw noSuchSchedule(name);
      return name;
    });
    invocation.out.answer({ key, deleted: true }, () => [`Schedule ${key} is deleted.`]);
    return EXIT.ok;
  },
});

function factsOf(schedule: Schedule): string[] {
  const { key, cron, timeZone, missed, overlap, submission, nextAt, pausedAt, lastFiredAt, lastJobId, skipped, reason } = schedule;
  const { type, queue } = submission as { type?: string; queue?: string };
  return textFacts([
    ['schedule', key],
    ['cron', cron],
    ['time zone', timeZone],
    ['type', type],
    ['queue', queue],
    ['missed', missed],
    ['overlap', overlap],
    ['next', pausedAt === null ? nextAt.toISOString() : `paused since ${pausedAt.toISOString()}`],
    ['last', lastFiredAt?.toISOString() ?? 'never'],
    ['last job', lastJobId],
    ['skipped', skipped === 0 ? null : `${skipped}, last ${schedule.lastSkippedAt?.toISOString()}`],
    ['project', schedule.projectId],
    ['changed', schedule.updatedAt.toISOString()],
    ['reason', reason],
    ['job', JSON.stringify(submission)],
  ]);
}
