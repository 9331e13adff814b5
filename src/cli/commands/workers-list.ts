import { type ListedWorker, listWorkers } from '../../services/queues/list-workers.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { ageText } from '../duration-text.ts';
import { textTable } from '../text-table.ts';

const OPTIONS = { stopped: { type: 'boolean', help: 'show workers that have stopped, too' } } as const;

export const workersList = defineCommand({
  name: 'workers list',
  summary: 'show the workers, what they serve and how many jobs they run',
  options: OPTIONS,
  details: 'A worker is alive, stalled (a handler blocks it), silent (no heartbeat for 30 seconds) or stopped.',
  examples: ['millrace workers list', 'millrace workers list --stopped --json'],
  async run(invocation: Invocation<typeof OPTIONS>) {
    const all = await withEngine(invocation, (engine) => listWorkers(engine));
    const workers = invocation.values.stopped === true ? all : all.filter(({ status }) => status !== 'stopped');
    const head = ['worker', 'status', 'running', 'heartbeat', 'started', 'host', 'pid', 'queues', 'types'];
    invocation.out.answer({ workers }, () =>
      workers.length === 0 ? ['No worker runs. Start one with "millrace work".'] : textTable(head, workers.map(rowOf)),
    );
    return EXIT.ok;
  },
});

const rowOf = ({ name, status, running, slots, silentMs, startedAt, host, pid, queues, types }: ListedWorker): string[] => [
  name,
  status,
  `${running}/${slots}`,
  `${ageText(silentMs)} ago`,
  startedAt.toISOString(),
  host,
  String(pid),
  queues.join(','),
  types.join(','),
];
