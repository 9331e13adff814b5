import { OPERATOR } from '../../core/governance/actor.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { CLAIM_ORDERS, type QueueSettingsChange } from '../../core/governance/queue-settings.ts';
import type { Engine } from '../../engine/engine.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import { changeQueue, drainQueue, pauseQueue, resumeQueue } from '../../services/queues/change-queue.ts';
import { findQueue, listQueues, type QueueView } from '../../services/queues/read-queues.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { ageText } from '../duration-text.ts';
import { readDurationMs, readWord } from '../option-values.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const LIST_OPTIONS = {
  org: { type: 'string', value: 'NAME|ID', help: 'count only jobs of this org, by its slug or its id; default: all orgs' },
} as const;

/** More than there can be. */
const ALL = 1_000_000;

export const queuesList = defineCommand({
  name: 'queues list',
  summary: 'show the queues, how many jobs wait and run, and which queues are paused',
  options: LIST_OPTIONS,
  details: 'Jobs wait if they could start now. Orgs share the queues, so the counts are of all orgs unless --org names one.',
  examples: ['millrace queues list', 'millrace queues list --org acme --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const queues = await withEngine(invocation, async (engine) => {
      const { items } = await listQueues(engine, { orgId: await orgIn(engine, invocation), cursor: null, limit: ALL });
      return items;
    });
    const rows = queues.map((queue) => [
      queue.name,
      String(queue.waiting),
      queue.oldestWaitingMs === null ? '' : ageText(queue.oldestWaitingMs),
      String(queue.running),
      limitsText(queue),
      sloText(queue),
      queue.order,
      stateText(queue),
    ]);
    const head = ['queue', 'waiting', 'oldest', 'running', 'limits', 'target', 'order', 'state'];
    invocation.out.answer({ queues }, () => textTable(head, rows));
    return EXIT.ok;
  },
});

export const queuesShow = defineCommand({
  name: 'queues show',
  summary: 'show a queue with its settings',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: LIST_OPTIONS,
  examples: ['millrace queues show q:default', 'millrace queues show q:default --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const name = invocation.args[0] as string;
    const queue = await withEngine(invocation, async (engine) => findQueue(engine, { orgId: await orgIn(engine, invocation), name }));
    invocation.out.answer({ queue }, () => textTable(['setting', 'value'], settingsOf(queue)));
    return EXIT.ok;
  },
});

const orgIn = async ({ database }: Engine, { values: { org } }: Invocation<typeof LIST_OPTIONS>): Promise<string | null> =>
  org === undefined ? null : (await findOrgByName(database, org)).id;

const SET_OPTIONS = {
  order: { type: 'string', value: 'fifo|fair', help: 'fair: orgs take turns; fifo: by order of submission over all orgs' },
  concurrency: { type: 'string', value: 'N|none', help: 'how many of its jobs run at the same time, over all workers' },
  rate: { type: 'string', value: 'N|none', help: 'how many of its jobs start a second, over all workers' },
  'depth-cap': { type: 'string', value: 'N|none', help: 'how many of its jobs may wait; beyond that /queue returns 429' },
  slo: { type: 'string', value: 'DURATION|none', help: 'how long its jobs should wait at most' },
  'reserved-share': {
    type: 'string',
    value: '0-1|none',
    help: 'the part of the slots of each worker that jobs of other queues do not take',
  },
  reason: { type: 'string', value: 'TEXT', help: 'why; it is written to the audit trail' },
} as const;

export const queuesSet = defineCommand({
  name: 'queues set',
  summary: 'change settings of a queue; none removes a setting',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: SET_OPTIONS,
  details: 'All processes apply the change within a second. A configuration file that names the setting overrides it at the next start.',
  examples: [
    'millrace queues set q:exports --concurrency 2',
    'millrace queues set q:exports --concurrency none --rate 5 --reason "provider limit"',
  ],
  async run(invocation: Invocation<typeof SET_OPTIONS>) {
    const change = changeIn(invocation.values);
    if (Object.values(change).every((value) => value === undefined)) {
      throw new UsageError('Name a setting to change, for example --concurrency 2. See "millrace help queues set".');
    }
    const requester = requesterOf(invocation.values.reason);
    return act(invocation, (engine, name) => changeQueue(engine, { name, requester, change }));
  },
});

function changeIn(values: Invocation<typeof SET_OPTIONS>['values']): QueueSettingsChange {
  const slo = values.slo === 'none' ? null : readDurationMs(values.slo, 'slo');
  return {
    order: readWord(values.order, 'order', CLAIM_ORDERS),
    concurrency: readNumber(values.concurrency, 'concurrency'),
    rate: readNumber(values.rate, 'rate'),
    depthCap: readNumber(values['depth-cap'], 'depth-cap'),
    sloSeconds: slo == null ? slo : slo / 1_000,
    reservedShare: readNumber(values['reserved-share'], 'reserved-share'),
  };
}

function readNumber(text: string | undefined, option: string): number | null | undefined {
  if (text === undefined || text === 'none') return text === undefined ? undefined : null;
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new UsageError(`--${option} takes a number or none, not "${text}".`);
}

const REASON = { reason: SET_OPTIONS.reason } as const;

export const queuesPause = defineCommand({
  name: 'queues pause',
  summary: 'start no more jobs of a queue; running jobs continue',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: REASON,
  examples: ['millrace queues pause q:exports'],
  run: (invocation: Invocation<typeof REASON>) => switchQueue(invocation, pauseQueue),
});

export const queuesResume = defineCommand({
  name: 'queues resume',
  summary: 'end the pause and the drain of a queue',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: REASON,
  examples: ['millrace queues resume q:exports'],
  run: (invocation: Invocation<typeof REASON>) => switchQueue(invocation, resumeQueue),
});

export const queuesDrain = defineCommand({
  name: 'queues drain',
  summary: 'accept no new jobs in a queue; waiting jobs still run',
  takes: 'NAME',
  minArgs: 1,
  maxArgs: 1,
  options: REASON,
  details: 'New jobs are refused with 429 until the queue is resumed.',
  examples: ['millrace queues drain q:exports --reason "move to another provider"'],
  run: (invocation: Invocation<typeof REASON>) => switchQueue(invocation, drainQueue),
});

type Switch = (engine: Engine, request: { name: string; requester: Requester }) => Promise<void>;

const switchQueue = (invocation: Invocation<typeof REASON>, change: Switch): Promise<number> =>
  act(invocation, (engine, name) => change(engine, { name, requester: requesterOf(invocation.values.reason) }));

/** The database's owner is an operator. */
export const requesterOf = (reason: string | undefined): Requester => ({ actor: OPERATOR, requestId: null, reason: reason ?? null });

async function act(invocation: Invocation, change: (engine: Engine, name: string) => Promise<void>): Promise<number> {
  const name = invocation.args[0] as string;
  const queue = await withEngine(invocation, async (engine) => {
    await change(engine, name);
    return findQueue(engine, { orgId: null, name });
  });
  invocation.out.answer({ queue }, () => [`Queue ${name} is ${stateWord(queue)}${settingText(queue)}.`]);
  return EXIT.ok;
}

function stateText({ pausedAt, drainingAt }: QueueView): string {
  const states = [
    ...(pausedAt === null ? [] : [`paused since ${pausedAt.toISOString()}`]),
    ...(drainingAt === null ? [] : [`draining since ${drainingAt.toISOString()}`]),
  ];
  return states.length === 0 ? 'open' : states.join(', ');
}

const stateWord = ({ pausedAt, drainingAt }: QueueView): string => {
  const states = [...(pausedAt === null ? [] : ['paused']), ...(drainingAt === null ? [] : ['draining'])];
  return states.length === 0 ? 'open' : states.join(' and ');
};

const limitsText = ({ concurrency, rate, depthCap }: QueueView): string =>
  [
    ...(concurrency === null ? [] : [`${concurrency} at once`]),
    ...(rate === null ? [] : [`${rate}/s`]),
    ...(depthCap === null ? [] : [`${depthCap} waiting`]),
  ].join(', ');

const sloText = ({ sloSeconds, sloMet }: QueueView): string =>
  sloSeconds === null ? '' : `${ageText(sloSeconds * 1_000)}${sloMet === null ? '' : sloMet ? ' met' : ' missed'}`;

const settingText = (queue: QueueView): string => (limitsText(queue) === '' ? '' : `, ${limitsText(queue)}`);

const settingsOf = (queue: QueueView): string[][] => [
  ['name', queue.name],
  ['state', stateText(queue)],
  ['order', queue.order],
  ['waiting', String(queue.waiting)],
  ['oldest waiting', queue.oldestWaitingMs === null ? '' : ageText(queue.oldestWaitingMs)],
  ['running', String(queue.running)],
  ['concurrency', String(queue.concurrency ?? 'none')],
  ['rate', queue.rate === null ? 'none' : `${queue.rate}/s`],
  ['depth cap', String(queue.depthCap ?? 'none')],
  ['target', queue.sloSeconds === null ? 'none' : sloText(queue)],
  ['reserved share', String(queue.reservedShare ?? 'none')],
];
