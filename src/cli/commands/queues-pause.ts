import { defineCommand, type Invocation } from '../command.ts';
import { switchQueue } from '../switch-queue.ts';

export const queuesPause = defineCommand({
  name: 'queues pause',
  summary: 'stop starting jobs of a queue; what runs goes on',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: {},
  examples: ['millrace queues pause mail'],
  run: (invocation: Invocation) => switchQueue(invocation, 'pause'),
});
