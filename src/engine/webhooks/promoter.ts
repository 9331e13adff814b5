import { randomUUID } from 'node:crypto';
import { DELIVERY_QUEUE, DELIVERY_TYPE, SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import type { Policy } from '../../core/policy.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { forgetHosts } from '../../ledger/webhooks/host-tokens.ts';
import {
  type LiveLane,
  nextDueMs,
  setLanesLive,
  type TakenDelivery,
  takeFirstDeliveries,
} from '../../ledger/webhooks/promote-deliveries.ts';
import { makeLanesDue } from '../../ledger/webhooks/queue-deliveries.ts';
import { type LaneBounds, type LockedLane, lockReadyLanes } from '../../ledger/webhooks/ready-lanes.ts';
import { type DeadDelivery, findDeadDeliveries, pruneDeliveries } from '../../ledger/webhooks/sweep-lanes.ts';
import { forgetVerifiedOrigins } from '../../ledger/webhooks/verified-origins.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';
import type { JobWriter } from '../submit/job-writer.ts';
import type { SubmissionRequest } from '../submit/prepared.ts';
import { admitByHost } from './host-rate.ts';

const MAX_LANES = 200;
/** Other processes may make lanes due without a hint. */
const POLL_MS = 1_000;
const MIN_WAIT_MS = 5;
const BUSY_MS = 10;
const SWEEP_EVERY_MS = 5_000;
const SWEEP_LIMIT = 1_000;
const PRUNE_LIMIT = 1_000;
const ACTOR = 'system:webhooks';

export type PromoterParams = {
  database: Database;
  events: EventHub;
  writer: Pick<JobWriter, 'writeTogether'>;
  prepare(request: SubmissionRequest): Promise<JobToWrite>;
  /** The policy of the jobs that deliver. */
  policy: Policy;
  /** How many deliveries may be live. */
  bounds: LaneBounds;
  /** How many calls a host may get per second, over all orgs. Without it there is no limit. */
  hostRate?: number;
  retentionMs: number;
  bury(dead: DeadDelivery): Promise<void>;
};

/** Gives the next delivery of each due lane its job, and cleans up after lanes and deliveries that were interrupted. */
export class Promoter extends LoopGroup {
  readonly #params: PromoterParams;
  readonly #promoting: Loop;
  protected readonly loops: readonly Loop[];

  constructor(params: PromoterParams) {
    super();
    this.#params = params;
    const { events } = params;
    this.#promoting = new Loop({ name: 'promoter', round: () => this.round(), events });
    this.loops = [this.#promoting, new Loop({ name: 'lane sweep', round: () => this.sweep(), events, firstWithinMs: SWEEP_EVERY_MS })];
  }

  wake(): void {
    this.#promoting.wake();
  }

  /** Returns how long to wait for the next round. */
  async round(): Promise<number> {
    const lanes = await this.#promote();
    if (lanes === null) return BUSY_MS;
    if (lanes >= MAX_LANES) return 0;
    const waitMs = await nextDueMs(this.#params.database.workers);
    return waitMs === null ? POLL_MS : Math.min(POLL_MS, Math.max(MIN_WAIT_MS, waitMs));
  }

  /** Returns how many lanes were due, or null while the promoter of another process is at work. */
  #promote(): Promise<number | null> {
    const { database, writer, bounds, hostRate } = this.#params;
    return inTransaction(database.workers, async (client) => {
      const lanes = await lockReadyLanes(client, { limit: MAX_LANES, bounds, start: randomUUID() });
      if (lanes === null) return null;
      if (lanes.length === 0) return 0;
      const admitted = hostRate === undefined ? lanes : await admitByHost(client, lanes, hostRate);
      const webhookIds = admitted.map(({ webhookId }) => webhookId);
      const taken = await takeFirstDeliveries(client, webhookIds);
      const failing = failingOf(admitted);
      const entries = await Promise.all(taken.map((delivery) => this.#jobFor(delivery, failing)));
      if (entries.length > 0) await writer.writeTogether(entries, client);
      await setLanesLive(client, lanesOf(webhookIds, taken, entries));
      return lanes.length;
    });
  }

  /** The job has as many attempts as the delivery has left. It uses one, unless its worker is lost. */
  async #jobFor({ id, webhookId, tries }: TakenDelivery, failing: ReadonlySet<string>): Promise<JobToWrite> {
    const { prepare, policy } = this.#params;
    const maxAttempts = Math.max(1, policy.maxAttempts - tries);
    const payload = { delivery_id: id, ...(failing.has(webhookId) ? { can_wait: true } : {}) };
    const submission = { type: DELIVERY_TYPE, queue: DELIVERY_QUEUE, payload, maxAttempts };
    return prepare({ orgId: SYSTEM_ORG_ID, submission, actor: ACTOR, terms: { profile: policy } });
  }

  /** Ends deliveries whose job died, and makes lanes due whose process ended between queuing a delivery and making the lane due. */
  async sweep(): Promise<number> {
    const { database, bury } = this.#params;
    const dead = await findDeadDeliveries(database.maintenance, SWEEP_LIMIT);
    for (const each of dead) await bury(each);
    if ((await makeLanesDue(database.maintenance, null)) > 0) this.wake();
    return dead.length === SWEEP_LIMIT ? 0 : SWEEP_EVERY_MS;
  }

  /** Removes deliveries past their retention. `hasMore`: call it again. */
  async prune(): Promise<{ removed: number; hasMore: boolean }> {
    const { database, retentionMs } = this.#params;
    await forgetHosts(database.maintenance);
    await forgetVerifiedOrigins(database.maintenance, PRUNE_LIMIT);
    const removed = await pruneDeliveries(database.maintenance, { retentionMs, limit: PRUNE_LIMIT });
    return { removed, hasMore: removed === PRUNE_LIMIT };
  }
}

const failingOf = (lanes: readonly LockedLane[]): ReadonlySet<string> =>
  new Set(lanes.filter(({ isFailing }) => isFailing).map(({ webhookId }) => webhookId));

function lanesOf(webhookIds: readonly string[], taken: readonly TakenDelivery[], entries: readonly JobToWrite[]): LiveLane[] {
  const live = new Map(taken.map(({ id, webhookId }, at) => [webhookId, { deliveryId: id, jobId: (entries[at] as JobToWrite).id }]));
  return webhookIds.map((webhookId) => ({ webhookId, live: live.get(webhookId) ?? null }));
}
