import { defineCommand, EXIT, type Invocation } from '../command.ts';
import type { ItemPage, ShownTask } from '../operator-answers.ts';
import { OPERATOR_OPTIONS, operatorClient } from '../operator-client.ts';
import { textTable } from '../text-table.ts';
import { reasonOf } from './fetch-jobs.ts';

export const maintenanceList = defineCommand({
  name: 'maintenance list',
  summary: 'list maintenance tasks with their last and next run',
  options: OPERATOR_OPTIONS,
  examples: ['millrace maintenance list', 'millrace maintenance list --json'],
  async run({ values, out }: Invocation<typeof OPERATOR_OPTIONS>) {
    const { items } = await operatorClient(values).get<ItemPage<ShownTask>>('/maintenance');
    out.answer({ items }, () =>
      textTable(
        ['task', 'state', 'last run', 'removed', 'next run', 'late', 'what it does'],
        items.map((task) => [
          task.name,
          task.paused ? 'paused' : task.state,
          task.last_ended_at ?? '',
          `${task.last_removed}`,
          task.next_at ?? '',
          task.lag_seconds === 0 ? '' : `${task.lag_seconds} s`,
          task.last_error ?? task.summary,
        ]),
      ),
    );
    return EXIT.ok;
  },
});

const OPTIONS = { ...OPERATOR_OPTIONS, reason: { type: 'string', value: 'TEXT', help: 'why; the audit trail keeps it' } } as const;

const VERBS = {
  run: { summary: 'run a maintenance task now', told: (task: ShownTask) => `The task ${task.name} runs as job ${task.last_job_id}.` },
  pause: { summary: 'start no more runs of a maintenance task', told: (task: ShownTask) => `The task ${task.name} is paused.` },
  resume: {
    summary: 'let a maintenance task run again',
    told: (task: ShownTask) => `The task ${task.name} runs again, next at ${task.next_at}.`,
  },
} as const;

const commandFor = (verb: keyof typeof VERBS) =>
  defineCommand({
    name: `maintenance ${verb}`,
    summary: VERBS[verb].summary,
    takes: 'NAME',
    minArgs: 1,
    maxArgs: 1,
    options: OPTIONS,
    examples: [`millrace maintenance ${verb} idempotency_keys`],
    async run({ values, args: [name = ''], out }: Invocation<typeof OPTIONS>) {
      const path = `/maintenance/${encodeURIComponent(name)}/${verb}`;
      const task = await operatorClient(values).post<ShownTask>(path, reasonOf(values.reason));
      out.answer(task, () => [VERBS[verb].told(task)]);
      return EXIT.ok;
    },
  });

export const maintenanceRun = commandFor('run');
export const maintenancePause = commandFor('pause');
export const maintenanceResume = commandFor('resume');
