import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { type BackoffPolicy, backoffDelayMs, PAUSES, pauseMs } from '../../core/backoff.ts';
import { type BreakerPolicy, breakerAfter, type Health, isHopeless, originBreakerAfter } from '../../core/breaker.ts';
import type { AttemptOutcome, LoadedDelivery } from '../../core/delivery-policy.ts';
import { type DisabledReason, disabledBody, messageIdOf } from '../../core/public-events.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { traceparentOf } from '../../core/traceparent.ts';
import type { Engine } from '../../engine/engine.ts';
import type { JobContext } from '../../engine/work/job-context.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { isPassing, type Queryable } from '../../ledger/driver/statement.ts';
import { changeOrigin, isSoundOrigin } from '../../ledger/webhooks/callback-origins.ts';
import { addInterruptedAttempts } from '../../ledger/webhooks/interrupted-attempts.ts';
import { loadDelivery } from '../../ledger/webhooks/load-delivery.ts';
import { makeLanesDue } from '../../ledger/webhooks/queue-deliveries.ts';
import { disableWebhook, type LiveDelivery, letDeliveryGo, lockLiveDelivery, writeAttempt } from '../../ledger/webhooks/settle-delivery.ts';
import { verifyOrigin } from '../../ledger/webhooks/verified-origins.ts';

/** The job that makes the delivery, with the means to finish it within a transaction. */
export type DeliveringJob = Pick<JobContext, 'jobId' | 'signal' | 'assertOwned' | 'completeIn'>;

/** `canWait`: the last call of the target failed. */
export type DeliveryTask = { readonly deliveryId: string; readonly canWait: boolean };

/** Runs the work as soon as a connection is free for it. */
export type TakeTurn = <T>(urgency: 'soon' | 'later', work: () => Promise<T>) => Promise<T>;

export type DeskOptions = {
  readonly engine: Engine;
  readonly breaker: BreakerPolicy;
  readonly backoff: BackoffPolicy;
  /** A target that fails for this long is disabled. */
  readonly disableAfterMs: number;
  /** Shares the connections among deliveries that start or end. Failed calls and retries have the lower priority. */
  readonly takeTurn: TakeTurn;
  /** Called when lanes may have become due. */
  wake(): void;
};

type EndedAttempt = { live: LiveDelivery; deliveryId: string; jobId: string; outcome: AttemptOutcome };

type Finished = {
  readonly live: LiveDelivery;
  readonly attempt: number;
  readonly isTriedAgain: boolean;
  /** Why the target was disabled; null if it was not. */
  readonly disabled: DisabledReason | null;
  /** Lanes that may have a delivery to make. */
  readonly lanes: readonly string[];
};

/** Loads deliveries for the handler that sends them, and records the outcomes. */
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
      await this.#giveBack(context, deliveryId);
      return { kind: 'gone' };
    }
    const { url, secrets, createdAt, now, webhookId, isCallback, isVerified, traceparent } = found;
    return {
      kind: 'ready',
      deliveryId,
      webhookId,
      isCallback,
      isVerified,
      messageId: messageIdOf(deliveryId),
      url,
      secrets,
      body: Buffer.from(found.body),
      traceparent: traceparentOf(traceparent),
      createdAtMs: createdAt.getTime(),
      nowMs: now.getTime(),
    };
  }

  /** The endpoint accepted a message. */
  noteVerified(endpoint: { webhookId: string; url: string }): Promise<void> {
    const { engine, takeTurn } = this.#options;
    return takeTurn('soon', () => verifyOrigin(engine.database.workers, endpoint));
  }

  /** Puts a delivery back into its lane because its target was disabled meanwhile, and completes the job. */
  async #giveBack(context: DeliveringJob, deliveryId: string): Promise<void> {
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
   * Records an attempt and its consequences, if this worker still owns the job. A delivery that is retried returns to its
   * lane, and this job completes.
   */
  async finish(context: DeliveringJob, deliveryId: string, outcome: AttemptOutcome): Promise<{ isTriedAgain: boolean }> {
    const { jobId } = context;
    const urgency = outcome.verdict === 'delivered' ? 'soon' : 'later';
    const finished = await this.#writeWithRetries({ signal: context.signal, urgency }, async (client) => {
      const live = await lockLiveDelivery(client, { deliveryId, jobId });
      if (live === null) return null;
      const state = stateAfter(outcome, live);
      if (state === 'failed') await context.assertOwned(client);
      else await context.completeIn(client);
      return live.isWritten ? null : this.#write(client, { live, deliveryId, jobId, outcome });
    });
    if (finished !== null) await this.#announce(finished, deliveryId, outcome);
    return { isTriedAgain: finished?.isTriedAgain === true };
  }

  /** Fails a delivery whose worker died during the last attempt. */
  async bury({ deliveryId, jobId }: { deliveryId: string; jobId: string }): Promise<void> {
    const outcome: AttemptOutcome = {
      verdict: 'failed',
      errorCode: 'WORKER_LOST',
      status: null,
      durationMs: 0,
      answer: null,
      retryAfterMs: null,
    };
    const finished = await inTransaction(this.#options.engine.database.workers, async (client) => {
      const live = await lockLiveDelivery(client, { deliveryId, jobId });
      return live === null ? null : this.#write(client, { live, deliveryId, jobId, outcome });
    });
    if (finished !== null) await this.#announce(finished, deliveryId, outcome);
  }

  /** Repeats a write until the database accepts it or the attempt ends. A lost outcome would cause a second call. */
  async #writeWithRetries<T>(
    { signal, urgency }: { signal: AbortSignal; urgency: 'soon' | 'later' },
    write: (client: pg.PoolClient) => Promise<T>,
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

  async #write(client: Queryable, ended: EndedAttempt): Promise<Finished> {
    const { live, deliveryId, jobId, outcome } = ended;
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

  async #noteOrigin(client: Queryable, live: LiveDelivery, attempt: { isDelivered: boolean; nowMs: number }): Promise<void> {
    if (attempt.isDelivered && (await isSoundOrigin(client, live))) return;
    await changeOrigin(client, live, (health) => originBreakerAfter(health, attempt, this.#options.breaker));
  }

  #reasonToDisable({ verdict }: AttemptOutcome, health: Health, nowMs: number): DisabledReason | null {
    if (verdict === 'gone') return 'gone';
    return isHopeless(health, { nowMs, disableAfterMs: this.#options.disableAfterMs }) ? 'failing' : null;
  }

  async #announce(finished: Finished, deliveryId: string, outcome: AttemptOutcome): Promise<void> {
    const { live, attempt, disabled, lanes } = finished;
    const { engine, wake } = this.#options;
    const { verdict, status, errorCode, durationMs } = outcome;
    const { orgId, webhookId, event, toldJobId: jobId, toldJobType: jobType, correlationId, projectId, traceparent } = live;
    const target = { orgId, webhookId, deliveryId, event, jobId, jobType, correlationId, projectId, traceparent };
    engine.events.emit('webhookAttempt', { ...target, attempt, verdict, status, errorCode, durationMs });
    if (disabled !== null) engine.events.emit('webhookDisabled', { orgId, webhookId, reason: disabled });
    // An event that was queued during this write found the lane busy, so its lane must be made due here.
    if (lanes.length > 0) await makeLanesDue(engine.database.workers, lanes);
    wake();
  }
}

function stateAfter({ verdict }: AttemptOutcome, { isLast, isDeleted }: LiveDelivery): 'queued' | 'delivered' | 'failed' {
  if (verdict === 'delivered') return 'delivered';
  return verdict === 'retry' && !isLast && !isDeleted ? 'queued' : 'failed';
}

function disable(client: Queryable, { webhookId, orgId, url, now }: LiveDelivery, reason: DisabledReason): Promise<string[]> {
  const body = disabledBody({ webhookId, url, reason, timestamp: formatTimestamp(now) });
  return disableWebhook(client, { webhookId, orgId, reason, body });
}
