import { defineCommand, type Invocation } from '../command.ts';
import { ORG_OPTIONS } from '../org-choice.ts';
import { showOrFollow } from './jobs-logs.ts';

export const logs = defineCommand({
  name: 'logs',
  summary: 'follow one job: its changes of state, its progress and its log lines',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ORG_OPTIONS,
  details:
    'The same as "millrace jobs logs ID --follow". Shows what happened so far, then each line as it comes, until the job has ended. Ctrl-C exits with 130 and does not affect the job.',
  examples: ['millrace logs 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace logs ID --all-orgs --json'],
  isLongRunning: true,
  run: (invocation: Invocation<typeof ORG_OPTIONS>) => showOrFollow({ ...invocation, values: { ...invocation.values, follow: true } }),
});
