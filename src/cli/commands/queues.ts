import { AppError } from '../../core/errors.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { textTable } from '../text-table.ts';

export const queuesList = defineCommand({
  name: 'queues list',
  summary: 'show the queues and which of them are paused',
  examples: ['millrace queues list', 'millrace queues list --json'],
  async run(invocation: Invocation) {
    const queues = await withMillrace(invocation, (millrace) => millrace.queues.list());
    const rows = queues.map(({ name, order, pausedAt }) => [
      name,
      order,
      pausedAt === null ? 'open' : `paused since ${pausedAt.toISOString()}`,
    ]);
    invocation.out.answer({ queues }, () =>
      rows.length === 0 ? ['There are no queues yet.'] : textTable(['queue', 'order', 'state'], rows),
    );
    return EXIT.ok;
  },
});

export const queuesPause = defineCommand({
  name: 'queues pause',
  summary: 'start no more jobs of a queue; running jobs continue',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  examples: ['millrace queues pause q:mail'],
  run: (invocation: Invocation) => switchQueue(invocation, 'pause'),
});

export const queuesResume = defineCommand({
  name: 'queues resume',
  summary: 'start jobs of a paused queue again',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  examples: ['millrace queues resume q:mail'],
  run: (invocation: Invocation) => switchQueue(invocation, 'resume'),
});

/** Refuses a queue that does not exist, so that a mistyped name does not look like a success. */
async function switchQueue(invocation: Invocation, verb: 'pause' | 'resume'): Promise<number> {
  const name = invocation.args[0] as string;
  const queue = await withMillrace(invocation, async (millrace) => {
    const names = (await millrace.queues.list()).map((each) => each.name);
    if (!names.includes(name)) {
      throw new AppError('NOT_FOUND', {
        message: `There is no queue "${name}"${suggestion(name, names)}. See "millrace queues list".`,
      });
    }
    await millrace.queues[verb](name);
    return (await millrace.queues.list()).find((each) => each.name === name);
  });
  invocation.out.answer({ queue }, () => [`Queue ${name} is ${queue?.pausedAt == null ? 'open' : 'paused'}.`]);
  return EXIT.ok;
}
