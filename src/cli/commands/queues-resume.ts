import { defineCommand, type Invocation } from '../command.ts';
import { switchQueue } from '../switch-queue.ts';

export const queuesResume = defineCommand({
  name: 'queues resume',
  summary: 'start jobs of a paused queue again',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: {},
  examples: ['millrace queues resume mail'],
  run: (invocation: Invocation) => switchQueue(invocation, 'resume'),
});
