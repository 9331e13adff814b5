import type { NewAlert } from '../../core/governance/alert.ts';
import { defaultSloSeconds } from '../../core/governance/queue-slo.ts';
import { FETCH_TYPE } from '../../core/ingest/fetch-task.ts';
import { MAINTENANCE_TASK_NAMES } from '../../core/maintenance.ts';
import type { Engine } from '../../engine/engine.ts';
import { Loop, type Service } from '../../engine/loop.ts';
import {
  type DeadDownloads,
  findDeadDownloads,
  findDisabledWebhooks,
  findWaitingRanges,
  projectionLags,
  type WaitingRange,
} from '../../ledger/alerts/find-trouble.ts';
import { raiseAlerts } from '../../ledger/alerts/raise-alert.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isDiskFullNow } from '../../ledger/driver/disk-room.ts';
import { sampleStoredBytes } from '../../ledger/queues/stored-bytes.ts';
import { listTasks, takeTurn } from '../../ledger/upkeep/maintenance-tasks.ts';

const CHECK_EVERY_MS = 30_000;
const STORAGE_EVERY_MS = 300_000;
/** A little less than the pause, so that the turn is free when the next round comes. */
const TURN = 0.9;
/** Jobs of a type without a worker may wait this long: a worker may be restarting. */
const NO_WORKER_SECONDS = 60;
const STUCK_SECONDS = 600;
/** A run of a maintenance task is this late at most, unless its queue is paused or no process runs it. */
const LATE_TASK_SECONDS = 3_600;
const NEARLY_FULL = 0.9;
const WEBHOOKS_AT_ONCE = 100;
const DOWNLOADS_AT_ONCE = 100;

export type DiskRoom = { readonly name: string; readonly freeBytes: number; readonly totalBytes: number };

/** What only the platform can find out. */
export type StorageProbes = {
  /** The disks that this process can see. */
  disks(): Promise<readonly DiskRoom[]>;
  /** Throws if objects cannot be stored now. */
  checkObjects(): Promise<unknown>;
  /** What the jobs of all orgs may take in the database. */
  readonly storedBytes: number;
};

/** Looks for trouble and raises alerts. Every process has these loops, and one at a time does the round. */
export function alertChecks(engine: Pick<Engine, 'database' | 'events'>, probes: StorageProbes): Service[] {
  const { database, events } = engine;
  const loop = (name: string, everyMs: number, check: () => Promise<NewAlert[]>): Service =>
    new Loop({
      name,
      events,
      firstWithinMs: everyMs,
      round: async () => {
        if (await takeTurn(database.maintenance, name, everyMs * TURN)) await raiseAlerts(database.maintenance, await check());
        return everyMs;
      },
    });
  return [
    loop('alert checks', CHECK_EVERY_MS, () => findTrouble(database)),
    loop('storage checks', STORAGE_EVERY_MS, () => findStorageTrouble(database, probes)),
  ];
}

/** Jobs that wait too long or without a worker, dead downloads, disabled webhooks, readers of the history that are stuck, and late maintenance. */
export async function findTrouble({ maintenance }: Database): Promise<NewAlert[]> {
  const ranges = await findWaitingRanges(maintenance);
  const disabled = await findDisabledWebhooks(maintenance, WEBHOOKS_AT_ONCE);
  const lags = (await projectionLags(maintenance)).filter(({ seconds }) => seconds > STUCK_SECONDS);
  const late = (await listTasks(maintenance, MAINTENANCE_TASK_NAMES)).filter(({ lagSeconds }) => lagSeconds > LATE_TASK_SECONDS);
  return [
    ...slowQueues(ranges),
    ...ranges.filter(({ hasWorker, seconds }) => !hasWorker && seconds > NO_WORKER_SECONDS).map(withoutWorker),
    ...(await findDeadDownloads(maintenance, DOWNLOADS_AT_ONCE)).map(deadDownloads),
    ...disabled.map(({ id, orgId, reason }) => ({
      kind: 'webhook_disabled' as const,
      severity: 'warning' as const,
      orgId,
      subject: `webhook:${id}`,
      message: `The webhook ${id} is disabled because ${reason === 'gone' ? 'its endpoint responded with 410' : 'its requests kept failing'}. Repair the endpoint, then enable the webhook. Its events are kept.`,
    })),
    ...lags.map(({ name, seconds }) =>
      stuck(
        `projection:${name}`,
        `The reader "${name}" of the history is ${showSeconds(seconds)} behind. End transactions that are open for long, or look for errors in the log.`,
      ),
    ),
    ...late.map(({ name, lagSeconds }) =>
      stuck(
        `maintenance:${name}`,
        `The maintenance task "${name}" is ${showSeconds(lagSeconds)} late. See whether the queue q:maintenance is paused, and whether a process runs "millrace up", "serve" or "work".`,
      ),
    ),
  ];
}

const stuck = (subject: string, message: string): NewAlert => ({ kind: 'stuck_loop', severity: 'error', orgId: null, subject, message });

function slowQueues(ranges: readonly WaitingRange[]): NewAlert[] {
  const oldest = new Map<string, WaitingRange>();
  for (const range of ranges) if (range.seconds > (oldest.get(range.queue)?.seconds ?? 0)) oldest.set(range.queue, range);
  return [...oldest.values()].flatMap(({ queue, seconds, sloSeconds }) => {
    const slo = sloSeconds ?? defaultSloSeconds(queue);
    if (seconds <= slo) return [];
    const message = `The oldest job of the queue ${queue} has waited ${showSeconds(seconds)}, and its target is ${showSeconds(slo)}. Add workers, or slow down what submits.`;
    return [{ kind: 'slo', severity: 'warning', orgId: null, subject: `queue:${queue}`, message } as const];
  });
}

const withoutWorker = ({ queue, jobType, seconds }: WaitingRange): NewAlert => ({
  kind: 'no_worker',
  severity: 'error',
  orgId: null,
  subject: `type:${jobType}`,
  message: `Jobs of the type ${jobType} in the queue ${queue} have waited ${showSeconds(seconds)}, and no live worker serves them. Start one with "millrace work".`,
});

const deadDownloads = ({ orgId, jobId, type, code, count }: DeadDownloads): NewAlert => ({
  kind: 'dead_letter',
  severity: 'error',
  orgId,
  subject: `job:${jobId}`,
  message: `${type === FETCH_TYPE ? 'Downloads' : 'The last step'} of the ingest job ${jobId} used up all attempts, with ${code}. See "millrace fetch show ${jobId}", and retry it when the cause is gone.`,
  count,
});

/** A disk or the object store that is full, failing or nearly full. */
export async function findStorageTrouble({ maintenance }: Database, probes: StorageProbes): Promise<NewAlert[]> {
  const alerts: NewAlert[] = [];
  const add = (severity: NewAlert['severity'], subject: string, message: string) =>
    alerts.push({ kind: 'storage', severity, orgId: null, subject, message });
  if (await isDiskFullNow(maintenance)) {
    add('critical', 'storage:database', 'The disk of the database is full. No job is accepted. Free space on it, or enlarge it.');
  }
  for (const { name, freeBytes, totalBytes } of await probes.disks()) {
    if (freeBytes > totalBytes * (1 - NEARLY_FULL)) continue;
    const percent = Math.floor((100 * freeBytes) / Math.max(1, totalBytes));
    add('warning', `storage:${name}`, `The disk of the ${name} has ${percent} % left. Free space on it, or enlarge it.`);
  }
  const failure = await probes.checkObjects().then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  if (failure !== null)
    add('error', 'storage:objects', `Objects cannot be stored: ${failure.slice(0, 300)}. Downloads wait until that works.`);
  const { all } = await sampleStoredBytes(maintenance);
  if (all > probes.storedBytes * NEARLY_FULL) {
    const percent = Math.round((100 * all) / probes.storedBytes);
    add(
      'warning',
      'storage:jobs',
      `Jobs take ${percent} % of limits.stored_size. Raise it, shorten retention.jobs, or store less in payloads.`,
    );
  }
  return alerts;
}

const showSeconds = (seconds: number): string => (seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`);
