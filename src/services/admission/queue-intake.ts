import type { AppError } from '../../core/errors.ts';
import { queueAtDepth, queueDraining } from '../../core/governance/queue-refusals.ts';
import type { Engine } from '../../engine/engine.ts';
import { findKeys, keyScopeOf } from '../../ledger/jobs/idempotency-keys.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import type { DepthAsk, DepthRoom, QueueDepths } from './queue-depths.ts';

/** The jobs that their queues refuse, with the errors. */
export type Refused = ReadonlyMap<JobToWrite, AppError>;

type Parts = Pick<Engine, 'catalogue' | 'database'>;

type Intake = { readonly orgId: string; readonly entries: readonly JobToWrite[]; readonly depths?: QueueDepths };

const NONE: Refused = new Map();

/**
 * Calls `write` with the jobs that their queues refuse: a draining queue accepts none, and a queue with a cap as many as fit. Repeats of
 * accepted jobs are not refused. Caps apply at doors that have `depths`.
 */
export function throughQueues<T>(parts: Parts, intake: Intake, write: (refused: Refused) => Promise<T>): Promise<T> {
  const { catalogue } = parts;
  const isGoverned = ({ job: { queue } }: JobToWrite): boolean => {
    const { isDraining, depthCap } = catalogue.intakeOf(queue);
    return isDraining || (depthCap !== null && intake.depths !== undefined);
  };
  return intake.entries.some(isGoverned) ? throughGoverned(parts, intake, write) : write(NONE);
}

/** Throws if a queue of these jobs accepts no new ones. */
export const requireOpenQueues = (parts: Parts, orgId: string, entries: readonly JobToWrite[]): Promise<void> =>
  throughQueues(parts, { orgId, entries }, async (refused) => {
    for (const refusal of refused.values()) throw refusal;
  });

async function throughGoverned<T>(parts: Parts, { orgId, entries, depths }: Intake, write: (refused: Refused) => Promise<T>): Promise<T> {
  const { catalogue } = parts;
  const repeats = await repeatsAmong(parts, orgId, entries);
  const fresh = entries.filter((entry) => !repeats.has(entry));
  const refused = new Map<JobToWrite, AppError>();
  for (const entry of fresh) if (catalogue.intakeOf(entry.job.queue).isDraining) refused.set(entry, queueDraining(entry.job.queue));
  if (depths === undefined) return write(refused);
  const counted = fresh.filter((entry) => !refused.has(entry) && entersNow(entry));
  const asks = [...Map.groupBy(counted, ({ job }) => job.queue)].flatMap(([queue, { length: jobs }]): DepthAsk[] => {
    const { depthCap: cap } = catalogue.intakeOf(queue);
    return cap === null ? [] : [{ queue, cap, orgId, jobs }];
  });
  return depths.through(asks, (rooms) => {
    refuseBeyond(rooms, counted, refused);
    return write(refused);
  });
}

function refuseBeyond(rooms: ReadonlyMap<string, DepthRoom>, entries: readonly JobToWrite[], refused: Map<JobToWrite, AppError>): void {
  const left = new Map([...rooms].map(([queue, { room }]) => [queue, room]));
  for (const entry of entries) {
    const { queue } = entry.job;
    const room = left.get(queue);
    if (room === undefined) continue;
    left.set(queue, room - 1);
    const { current, cap } = rooms.get(queue) as DepthRoom;
    if (room <= 0) refused.set(entry, queueAtDepth(queue, { current: Math.max(current, cap), maximum: cap }));
  }
}

/** Whether the job waits for a worker as soon as it is written. */
const entersNow = ({ job }: JobToWrite): boolean => job.runAt === null && job.runAfterMs === null && job.dependsOn.length === 0;

async function repeatsAmong({ database }: Parts, orgId: string, entries: readonly JobToWrite[]): Promise<ReadonlySet<JobToWrite>> {
  const keyed = entries.filter(({ job }) => job.idempotencyKey !== null);
  if (keyed.length === 0) return new Set();
  const keys = keyed.map(({ job }) => ({ scope: keyScopeOf(job), key: job.idempotencyKey as string }));
  const found = await findKeys(database.api, orgId, keys);
  return new Set(keyed.filter((_, index) => found[index] !== null));
}
