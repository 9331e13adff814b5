import { setTimeout as delay } from 'node:timers/promises';
import { type BackoffPolicy, backoffDelayMs, PAUSES, pauseMs } from '../../core/backoff.ts';
import { type BreakerPolicy, breakerAfter, type Health, isHopeless, originBreakerAfter } from '../../core/breaker.ts';
import type { LoadedDelivery } from '../../core/delivery-policy.ts';
import { type DisabledReason, disabledBody, messageIdOf } from '../../core/public-events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import type { JobContext } from '../../engine/work/job-context.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { isPassing, type Queryable } from '../../ledger/driver/statement.ts';
import { addInterruptedAttempts } from '../../ledger/reads/interrupted-attempts.ts';
import { changeOrigin, isSoundOrigin } from '../../ledger/webhooks/callback-origins.ts';
import { loadDelivery } from '../../ledger/webhooks/load-delivery.ts';
import { makeLanesDue } from '../../ledger/webhooks/queue-deliveries.ts';
import {
  disableWebhook,
  type LiveDelivery,
  letDeliveryGo,
  lockLiveDelivery,
  writeAttempt,
} from '../../ledger/webhooks/settle-delivery.ts';

export type AttemptOutcome = {
  readonly verdict: 'delivered' | 'retry' | 'failed' | 'gone';
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly durationMs: number;
  readonly answer: string | null;
  /** How long the endpoint asked to be left alone. */
  readonly retryAfterMs: number | null;
};

/** The attempt that delivers: its job, and how to finish that within a transaction. */
export type DeliveringJob = Pick<JobContext, 'jobId' | 'signal' | 'assertOwned' | 'completeIn'>;

/** `canWait`: it is for a target that failed last. */
export type DeliveryTask = { readonly deliveryId: string; readonly canWait: boolean };

/** Runs work now or when its turn comes. */
export type TakeTurn = <T>(urgency: 'soon' | 'later', work: () => Promise<T>) => Promise<T>;

export type DeskOptions = {
  readonly engine: Engine;
  readonly breaker: BreakerPolicy;
  /** How long a delivery waits that is tried again. */
  readonly backoff: BackoffPolicy;
  /** How long a target may fail before it is disabled. */
  readonly disableAfterMs: number;
  /** How calls that begin or end share the connections. Those that failed, and are repeated, can wait. */
  readonly takeTurn: TakeTurn;
  /** Lanes may have come due. */
  wake(): void;
};

type Finished = {
  readonly live: LiveDelivery;
  /** Which attempt it was. */
  readonly attempt: number;
  readonly isTriedAgain: boolean;
  /** Why its target was disabled, if it was. */
  readonly disabled: DisabledReason | null;
  /** Lanes that may have something to do. */
  readonly lanes: readonly string[];
};

/** Reads deliveries for those who send them, and writes down what came of it. */
export class DeliveryDesk {
  readonly #options: DeskOptions;

  constructor(options: DeskOptions) {
    this.#options = options;
  }

  async load(context: DeliveringJob, { deliveryId, canWait }: DeliveryTask): Promise<LoadedDelivery> {
    const { engine, takeTurn } = this.#options;
    const { workers } = engine.database;
    const urgency = canWait ? 'later' : 'soon';
    const found = await takeTurn(urgency, () => loadDelivery(workers, { deliveryId, jobId: context.jobId }));
    if (found === null) {
      await this.#letGo(context, deliveryId);
      return { kind: 'gone' };
    }
    const { url, secrets, createdAt, now } = found;
    return {
      ...{ kind: 'ready', deliveryId, messageId: messageIdOf(deliveryId), url, secrets },
      ...{ body: Buffer.from(found.body), createdAtMs: createdAt.getTime(), nowMs: now.getTime() },
    };
  }

  /** A delivery whose target was disabled meanwhile waits for it again. Its job is done. */
  async #letGo(context: DeliveringJob, deliveryId: string): Promise<void> {
    const { workers } = this.#options.engine.database;
    const live = await inTransaction(workers, async (client) => {
      const locked = await lockLiveDelivery(client, { deliveryId, jobId: context.jobId });
      if (locked === null) return null;
      await context.completeIn(client);
      if (locked.isRepeat) await addInterruptedAttempts(client, { deliveryId, jobId: context.jobId });
      await letDeliveryGo(client, { deliveryId, jobId: context.jobId });
      return locked;
    });
    if (live === null) return;
    await makeLanesDue(workers, [live.webhookId]);
    this.#options.wake();
  }

  /**
   * Writes an attempt and what follows from it, if the job is still this worker's. Whoever is tried again has been given back to its
   * lane, and this job is done.
   */
  async finish(
    context: DeliveringJob,
    deliveryId: string,
    outcome: AttemptOutcome,
  ): Promise<{ isTriedAgain: boolean }> {
    const { jobId } = context;
    const urgency = outcome.verdict === 'delivered' ? 'soon' : 'later';
    const finished = await this.#untilTaken({ signal: context.signal, urgency }, async (client) => {
      const live = await lockLiveDelivery(client, { deliveryId, jobId });
      if (live === null) return null;
      const state = stateAfter(outcome, live);
      if (state === 'failed') await context.assertOwned(client);
      else await context.completeIn(client);
      return live.isWritten ? null : this.#write(client, { live, deliveryId, jobId, outcome });
    });
    if (finished !== null) await this.#tell(finished, deliveryId, outcome);
    return { isTriedAgain: finished?.isTriedAgain === true };
  }

  /** Ends a delivery whose job ended without telling: its worker died during the last attempt. */
  async bury({ deliveryId, jobId }: { deliveryId: string; jobId: string }): Promise<void> {
    const lost = { status: null, durationMs: 0, answer: null, retryAfterMs: null };
    const outcome = { verdict: 'failed', errorCode: 'WORKER_LOST', ...lost } as const;
    const finished = await inTransaction(this.#options.engine.database.workers, async (client) => {
      const live = await lockLiveDelivery(client, { deliveryId, jobId });
      return live === null ? null : this.#write(client, { live, deliveryId, jobId, outcome });
    });
    if (finished !== null) await this.#tell(finished, deliveryId, outcome);
  }

  /** What came of a call is kept until the database takes it or the attempt is over: without it the call would be made again. */
  async #untilTaken<T>(
    { signal, urgency }: { signal: AbortSignal; urgency: 'soon' | 'later' },
    write: (client: Queryable) => Promise<T>,
  ): Promise<T> {
    const { engine, takeTurn } = this.#options;
    const { database, events } = engine;
    for (let failures = 0; ; failures++) {
      try {
        return await takeTurn(urgency, () => inTransaction(database.workers, write));
      } catch (error) {
        if (signal.aborted || !isPassing(error)) throw error;
        events.emit('error', { error, where: 'webhooks' });
        await delay(pauseMs(PAUSES.deliveryNotWritten, failures, Math.random()));
      }
    }
  }

  async #write(
    client: Queryable,
    {
      live,
      deliveryId,
      jobId,
      outcome,
    }: { live: LiveDelivery; deliveryId: string; jobId: string; outcome: AttemptOutcome },
  ): Promise<Finished> {
    const { webhookId, leaseSeq } = live;
    const interrupted = live.isRepeat ? await addInterruptedAttempts(client, { deliveryId, jobId }) : 0;
    const nowMs = live.now.getTime();
    const attempt = { isDelivered: outcome.verdict === 'delivered', nowMs };
    const health = breakerAfter(live.health, attempt, this.#options.breaker);
    if (live.isCallback) await this.#noteOrigin(client, live, attempt);
    const reason = live.isEnabled ? this.#reasonToDisable(outcome, health, nowMs) : null;
    const state = stateAfter(outcome, live);
    const goesOn = live.isEnabled && reason === null;
    const delayMs = state === 'queued' ? this.#delayMs(outcome, live.tries + interrupted + 1) : 0;
    const row = { ...outcome, deliveryId, webhookId, leaseSeq, state, delayMs, goesOn, health };
    const { isIdle } = await writeAttempt(client, row);
    const siblings = reason === null ? [] : await disable(client, live, reason);
    const lanes = isIdle && goesOn ? [...siblings, webhookId] : siblings;
    return {
      live,
      attempt: live.attempts + interrupted + 1,
      isTriedAgain: state === 'queued',
      disabled: reason,
      lanes,
    };
  }

  #delayMs({ retryAfterMs }: AttemptOutcome, retry: number): number {
    const { backoff: policy } = this.#options;
    const asked = retryAfterMs === null ? {} : { retryAfterMs };
    return backoffDelayMs({ policy, retry, random: Math.random(), ...asked }).delayMs;
  }

  async #noteOrigin(
    client: Queryable,
    live: LiveDelivery,
    attempt: { isDelivered: boolean; nowMs: number },
  ): Promise<void> {
    if (attempt.isDelivered && (await isSoundOrigin(client, live))) return;
    await changeOrigin(client, live, (health) => originBreakerAfter(health, attempt, this.#options.breaker));
  }

  #reasonToDisable({ verdict }: AttemptOutcome, health: Health, nowMs: number): DisabledReason | null {
    if (verdict === 'gone') return 'gone';
    return isHopeless(health, { nowMs, disableAfterMs: this.#options.disableAfterMs }) ? 'failing' : null;
  }

  async #tell(finished: Finished, deliveryId: string, outcome: AttemptOutcome): Promise<void> {
    const { live, attempt, disabled, lanes } = finished;
    const { engine, wake } = this.#options;
    const { verdict, status, errorCode, durationMs } = outcome;
    const { orgId, webhookId, event, toldJobId: jobId, traceparent } = live;
    engine.events.emit('webhookAttempt', {
      ...{ orgId, webhookId, deliveryId, event, jobId, traceparent, attempt },
      ...{ verdict, status, errorCode, durationMs },
    });
    if (disabled !== null) engine.events.emit('webhookDisabled', { orgId, webhookId, reason: disabled });
    // Whoever queued something while the lane was being left saw it busy still, and left it to us.
    if (lanes.length > 0) await makeLanesDue(engine.database.workers, lanes);
    wake();
  }
}

function stateAfter(
  { verdict }: AttemptOutcome,
  { isLast, isDeleted }: LiveDelivery,
): 'queued' | 'delivered' | 'failed' {
  if (verdict === 'delivered') return 'delivered';
  return verdict === 'retry' && !isLast && !isDeleted ? 'queued' : 'failed';
}

function disable(
  client: Queryable,
  { webhookId, orgId, url, now }: LiveDelivery,
  reason: DisabledReason,
): Promise<string[]> {
  const body = disabledBody({ webhookId, url, reason, timestamp: formatTimestamp(now) });
  return disableWebhook(client, { webhookId, orgId, reason, body });
}
