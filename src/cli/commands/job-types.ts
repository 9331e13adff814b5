import type { Requester } from '../../core/governance/audit-action.ts';
import type { Engine } from '../../engine/engine.ts';
import { type JobTypeView, listTypes, pauseJobType, resumeJobType } from '../../services/queues/job-types.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { textTable } from '../text-table.ts';
import { requesterOf } from './queues.ts';

/** More than there can be. */
const ALL = 1_000_000;

export const typesList = defineCommand({
  name: 'types list',
  summary: 'show the job types, their caps and how many workers run them',
  examples: ['millrace types list', 'millrace types list --json'],
  async run(invocation: Invocation) {
    const { items } = await withEngine(invocation, (engine) => listTypes(engine, { orgId: null, cursor: null, limit: ALL }));
    const head = ['type', 'running', 'cap', 'workers', 'registered', 'state'];
    invocation.out.answer({ types: items }, () =>
      items.length === 0 ? ['No worker has registered a type yet. Start one with "millrace work".'] : textTable(head, items.map(rowOf)),
    );
    return EXIT.ok;
  },
});

const rowOf = ({ name, running, concurrency, workerIds, announcedAt, pausedAt }: JobTypeView): string[] => [
  name,
  String(running),
  concurrency === null ? '' : String(concurrency),
  String(workerIds.length),
  announcedAt.toISOString(),
  pausedAt === null ? 'open' : `paused since ${pausedAt.toISOString()}`,
];

const REASON = { reason: { type: 'string', value: 'TEXT', help: 'why; it is written to the audit trail' } } as const;

export const typesPause = defineCommand({
  name: 'types pause',
  summary: 'start no more jobs of a type; running jobs continue',
  takes: 'TYPE',
  minArgs: 1,
  maxArgs: 1,
  options: REASON,
  examples: ['millrace types pause send-mail'],
  run: (invocation: Invocation<typeof REASON>) => switchType(invocation, pauseJobType, 'paused'),
});

export const typesResume = defineCommand({
  name: 'types resume',
  summary: 'start jobs of a paused type again',
  takes: 'TYPE',
  minArgs: 1,
  maxArgs: 1,
  options: REASON,
  examples: ['millrace types resume send-mail'],
  run: (invocation: Invocation<typeof REASON>) => switchType(invocation, resumeJobType, 'open'),
});

type Switch = (engine: Engine, request: { name: string; requester: Requester }) => Promise<void>;

async function switchType(invocation: Invocation<typeof REASON>, change: Switch, state: 'paused' | 'open'): Promise<number> {
  const name = invocation.args[0] as string;
  await withEngine(invocation, (engine) => change(engine, { name, requester: requesterOf(invocation.values.reason) }));
  invocation.out.answer({ type: { name, paused: state === 'paused' } }, () => [`Type ${name} is ${state}.`]);
  return EXIT.ok;
}
