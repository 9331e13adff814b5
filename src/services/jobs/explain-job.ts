import { formatDuration } from '../../core/duration.ts';
import { isUuid } from '../../core/ids.ts';
import { describeLimit } from '../../core/limit.ts';
import type { Owner } from '../../core/owner.ts';
import { isTerminal, type JobState } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { GRACE_MS } from '../../engine/upkeep/worker-watch.ts';
import { type JobFacts, type JobHolder, explainJob as readFacts } from '../../ledger/reads/explain-job.ts';
import type { LimitFacts } from '../../ledger/reads/explain-limit.ts';
import { MAX_COUNTED_AHEAD } from '../../ledger/reads/explain-turn.ts';
import { publicNames } from './public-names.ts';

/** A reason why a job is not running. */
export type Obstacle =
  | 'DEPENDENCY'
  | 'TIME'
  | 'QUEUE_PAUSED'
  | 'QUEUE_CAP'
  | 'QUEUE_RATE'
  | 'TYPE_PAUSED'
  | 'TYPE_CAP'
  | 'ORG_CAP'
  | 'ORG_SHARE'
  | 'LIMIT'
  | 'NO_WORKER'
  | 'BEHIND_OTHERS'
  | 'HELD_FOR_CHILDREN'
  | 'WORKER_GONE'
  | 'WORKER_STALLED'
  | 'CANCEL_REQUESTED';

/** Why a job is or is not running. */
export type Explanation = {
  /** The id of the job. */
  jobId: string;
  /** The state of the job. */
  state: JobState;
  /** One sentence for a person to act on. */
  summary: string;
  /** Everything that keeps the job from running, each with a sentence. */
  obstacles: { code: Obstacle; message: string }[];
  /** What the explanation was made from. */
  facts: JobFacts;
};

export type ExplainParams = Owner & {
  id: string;
  /** Whether workers and hosts get names that say nothing of the server. */
  hidesNames?: boolean;
};

/** Explains why a job is not running. Returns null if the owner has no such job. */
export async function explainJob(engine: Engine, { id, hidesNames = false, ...owner }: ExplainParams): Promise<Explanation | null> {
  if (!isUuid(id)) return null;
  const read = await readFacts(engine.database.reads.of(owner.orgId), owner, id);
  if (read === null) return null;
  const facts = hidesNames && read.holder !== null ? { ...read, holder: await renamed(engine, read.holder) } : read;
  const obstacles = OBSTACLES.flatMap(([code, describe]) => {
    const message = describe(facts);
    return message === null ? [] : [{ code, message }];
  });
  return { jobId: id, state: facts.state, summary: summaryOf(facts, obstacles), obstacles, facts };
}

async function renamed(engine: Engine, holder: JobHolder): Promise<JobHolder> {
  const { workerOf, hostOf } = await publicNames(engine);
  const { name, host } = holder;
  return { ...holder, name: name === '' ? '' : workerOf(name), host: host === '' ? '' : hostOf(host) };
}

const isWaiting = ({ state }: JobFacts): boolean => !isTerminal(state) && state !== 'running';
const waitsInLine = ({ state, holder }: JobFacts): boolean => state === 'scheduled' && holder === null;

/** In the order in which the obstacles would have to be removed. */
const OBSTACLES: readonly (readonly [Obstacle, (facts: JobFacts) => string | null])[] = [
  ['WORKER_STALLED', (facts) => stalledSentence(facts)],
  ['WORKER_GONE', ({ holder }) => (holder === null ? null : goneSentence(holder))],
  ['CANCEL_REQUESTED', (facts) => (facts.cancelRequest === null ? null : 'It was asked to stop.')],
  ['DEPENDENCY', ({ unmetDependencies: unmet }) => (unmet.length === 0 ? null : dependencySentence(unmet))],
  ['TIME', (facts) => (isTimed(facts) ? `It is due in ${formatDuration(Math.ceil(facts.runInMs))}.` : null)],
  ['QUEUE_PAUSED', (facts) => (isWaiting(facts) && facts.queuePausedAt !== null ? pausedSentence(facts) : null)],
  ['TYPE_PAUSED', (facts) => (isWaiting(facts) && facts.typePausedAt !== null ? `Type ${facts.type} is paused.` : null)],
  ['NO_WORKER', (facts) => (isWaiting(facts) && facts.servingWorkers === 0 ? noWorkerSentence(facts) : null)],
  ['QUEUE_CAP', (facts) => (waitsInLine(facts) ? queueCapSentence(facts) : null)],
  ['QUEUE_RATE', (facts) => (waitsInLine(facts) ? queueRateSentence(facts) : null)],
  ['TYPE_CAP', (facts) => (waitsInLine(facts) ? capSentence(`Type ${facts.type}`, facts.typeCap) : null)],
  ['ORG_CAP', (facts) => (waitsInLine(facts) ? capSentence('The org', facts.orgCap) : null)],
  ['LIMIT', ({ limit }) => (limit === null ? null : limitSentence(limit))],
  ['ORG_SHARE', (facts) => (waitsInLine(facts) && facts.servingWorkers > 0 ? shareSentence(facts.share) : null)],
  ['BEHIND_OTHERS', (facts) => (waitsInLine(facts) ? aheadSentence(facts.aheadInLine) : null)],
  [
    'HELD_FOR_CHILDREN',
    ({ heldForChildren: open }) => (open === null ? null : `Its handler has finished. It waits for ${jobs(open)} that it spawned.`),
  ],
];

const pausedSentence = ({ queue, queueDrainingAt }: JobFacts): string =>
  queueDrainingAt === null ? `Queue ${queue} is paused.` : `Queue ${queue} is paused and draining: an operator must resume it.`;

/** Without the number of running jobs, which may belong to other orgs. */
function queueCapSentence({ queue, queueCap: cap }: JobFacts): string | null {
  return cap === null || cap.live < cap.cap ? null : `Queue ${queue} runs as many jobs at the same time as it may (${cap.cap}).`;
}

const queueRateSentence = ({ queue, queueRate: rate }: JobFacts): string | null =>
  rate === null || !rate.isUsedUp ? null : `Queue ${queue} starts at most ${rate.rate} jobs a second, and other jobs have just started.`;

const jobs = (count: number): string => (count === 1 ? '1 job' : `${count} jobs`);

const isTimed = (facts: JobFacts): boolean => (facts.state === 'delayed' || facts.state === 'retrying') && facts.runInMs > 0;

function dependencySentence(unmet: JobFacts['unmetDependencies']): string {
  const first = unmet[0];
  const more = unmet.length > 1 ? ` and ${unmet.length - 1} more` : '';
  return `It waits for job ${first?.id} (${first?.state})${more}.`;
}

/** The rescuer looks once a second. It needs two looks: one to notice, and one after the grace period. */
const TAKEOVER_MS = GRACE_MS + 2_000;

function goneSentence({ name, condition, silentMs, leaseLeftMs }: JobHolder): string | null {
  switch (condition) {
    case 'responding':
    case 'stalled':
      return null;
    case 'stopped':
      return `${name === '' ? 'Its worker' : `Worker ${name}`} has stopped. Other workers will take over its jobs shortly.`;
    case 'disconnected': {
      const left = Math.max(1_000, TAKEOVER_MS - silentMs);
      return `Worker ${name} stopped responding ${roughly(silentMs)} ago. Other workers take over its jobs in about ${roughly(left)}.`;
    }
    case 'silent':
      return `Worker ${name} sent its last heartbeat ${roughly(silentMs)} ago: it may be frozen or disconnected. Other workers take over its jobs in about ${roughly(leaseLeftMs)} unless it responds.`;
  }
}

function stalledSentence(facts: JobFacts): string | null {
  const { holder } = facts;
  if (holder !== null) {
    if (holder.stalledMs === null || holder.condition === 'silent' || holder.condition === 'disconnected') return null;
    const since = `A handler has blocked the event loop of worker ${holder.name} for ${roughly(holder.stalledMs)}.`;
    if (holder.condition === 'stopped') return `${since} The worker was stopped, and other workers will take over its jobs shortly.`;
    return `${since} Its jobs cannot continue. If it is still blocked when the handler's timeout is over, other workers take over its jobs.`;
  }
  if (!isWaiting(facts) || facts.stalledWorkers === 0 || facts.servingWorkers > 0) return null;
  return `A handler blocks the event loop of every worker that serves type ${facts.type} in queue ${facts.queue}. Start another worker.`;
}

const roughly = (ms: number): string => (ms < 120_000 ? `${Math.max(1, Math.round(ms / 1_000))} s` : `${Math.round(ms / 60_000)} min`);

function noWorkerSentence({ type, queue, servedForOthersOnly }: JobFacts): string {
  if (!servedForOthersOnly) return `No live worker serves type ${type} in queue ${queue}. Start one that registers it.`;
  return `No live worker serves type ${type} in queue ${queue} for this org. Start one that registers it for the org or for every org.`;
}

function capSentence(who: string, cap: JobFacts['typeCap']): string | null {
  return cap === null || cap.live < cap.cap ? null : `${who} runs ${cap.live} of at most ${cap.cap} jobs at the same time.`;
}

function limitSentence(limit: LimitFacts): string {
  const { key, concurrency, rate, running, started, ahead, runningIds } = limit;
  const runs =
    concurrency === null || running < concurrency
      ? null
      : `${jobs(running)} with it run now (${runningIds.join(', ')}${running > runningIds.length ? ', ...' : ''})`;
  const starts = rate === null || started < rate ? null : `${started} of them started within that time or are about to start`;
  const state = [runs, starts].filter((each) => each !== null).join(', and ');
  const before =
    ahead === 0
      ? ''
      : ` ${ahead >= MAX_COUNTED_AHEAD ? `More than ${MAX_COUNTED_AHEAD - 1} jobs` : jobs(ahead)} with the key wait before it.`;
  return `The limit of the key ${JSON.stringify(key)} allows ${describeLimit(limit)}${state === '' ? '' : `: ${state}`}.${before}`;
}

/** The org has its share of the slots if the rest is reserved, or if it has at least as many as an equal division would give it. */
function shareSentence(share: JobFacts['share']): string | null {
  if (share === null || share.ownSlots === 0 || share.openSlots > 0) return null;
  const { slots, ownSlots, reservedSlots, waitingOrgs } = share;
  const runs = `Its org runs jobs in ${ownSlots} of the ${slots} slots for this job, which is its share`;
  if (reservedSlots > 0)
    return `${runs}: ${reservedSlots} more ${reservedSlots === 1 ? 'is' : 'are'} kept free for orgs that run no job there.`;
  if (waitingOrgs === 0 || ownSlots * (waitingOrgs + 1) < slots) return null;
  return `${runs}: ${waitingOrgs === 1 ? 'another org waits' : `${waitingOrgs} other orgs wait`} for slots too.`;
}

function aheadSentence(ahead: number | null): string | null {
  if (ahead === null || ahead === 0) return null;
  if (ahead === 1) return 'One ready job goes before it.';
  return `${ahead >= MAX_COUNTED_AHEAD ? `More than ${MAX_COUNTED_AHEAD - 1}` : ahead} ready jobs go before it.`;
}

function summaryOf(facts: JobFacts, obstacles: Explanation['obstacles']): string {
  if (isTerminal(facts.state)) return `It has ended: ${facts.state}.`;
  const isTended = facts.holder?.condition === 'responding';
  if (facts.state === 'running' && facts.holder !== null && isTended) return `It is running on ${facts.holder.name}.`;
  if (obstacles[0] !== undefined) return obstacles[0].message;
  if (facts.holder !== null) return `Worker ${facts.holder.name} has claimed it and is about to start it.`;
  return 'It is ready: the next free worker will claim it.';
}
