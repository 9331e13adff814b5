import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withMillrace } from '../connection.ts';
import { textTable } from '../text-table.ts';

export const queuesList = defineCommand({
  name: 'queues list',
  summary: 'show the queues, and which are paused',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: {},
  examples: ['millrace queues list', 'millrace queues list --json'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
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
}
