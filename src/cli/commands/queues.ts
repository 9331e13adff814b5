import { AppError } from '../../core/errors.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { queueLoad } from '../../ledger/queues/queue-load.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import { QueueControls } from '../../services/queues/queue-controls.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { ageText } from '../duration-text.ts';
import { textTable } from '../text-table.ts';

const LIST_OPTIONS = {
  org: { type: 'string', value: 'NAME|ID', help: 'count only jobs of this org, by its slug or its id; default: all orgs' },
} as const;

export const queuesList = defineCommand({
  name: 'queues list',
  summary: 'show the queues, how many jobs wait and run, and which queues are paused',
  options: LIST_OPTIONS,
  details: 'Jobs wait if they could start now. Orgs share the queues, so the counts are of all orgs unless --org names one.',
  examples: ['millrace queues list', 'millrace queues list --org acme --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const { org } = invocation.values;
    const queues = await withEngine(invocation, async (engine) => {
      const orgId = org === undefined ? null : (await findOrgByName(engine.database, org)).id;
      return queueLoad(engine.database.maintenance, orgId);
    });
    const rows = queues.map(({ name, order, pausedAt, waiting, running, oldestWaitingMs }) => [
      name,
      String(waiting),
      oldestWaitingMs === null ? '' : ageText(oldestWaitingMs),
      String(running),
      order,
      pausedAt === null ? 'open' : `paused since ${pausedAt.toISOString()}`,
    ]);
    const head = ['queue', 'waiting', 'oldest', 'running', 'order', 'state'];
    invocation.out.answer({ queues }, () => (rows.length === 0 ? ['There are no queues yet.'] : textTable(head, rows)));
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
  const queue = await withEngine(invocation, async (engine) => {
    const queues = new QueueControls(engine);
    const names = (await queues.list()).map((each) => each.name);
    if (!names.includes(name)) {
      throw new AppError('NOT_FOUND', {
        message: `There is no queue "${name}"${suggestion(name, names)}. See "millrace queues list".`,
      });
    }
    await queues[verb](name);
    return (await queues.list()).find((each) => each.name === name);
  });
  invocation.out.answer({ queue }, () => [`Queue ${name} is ${queue?.pausedAt == null ? 'open' : 'paused'}.`]);
  return EXIT.ok;
}
