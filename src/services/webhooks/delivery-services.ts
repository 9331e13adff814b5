import type { BreakerPolicy } from '../../core/breaker.ts';
import { type DeliverySettings, deliveryPolicy } from '../../core/delivery-policy.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Service } from '../../engine/loop.ts';
import { Dispatcher } from '../../engine/webhooks/dispatcher.ts';
import { Promoter } from '../../engine/webhooks/promoter.ts';
import type { LaneBounds } from '../../ledger/webhooks/ready-lanes.ts';
import { DeliveryDesk, type TakeTurn } from './settle-delivery.ts';

export type DeliveriesOptions = {
  readonly engine: Engine;
  readonly settings: DeliverySettings;
  /** The minimum time that deliveries are kept. */
  readonly retentionMs: number;
  readonly slots: number;
  readonly breaker: BreakerPolicy;
  readonly disableAfterMs: number;
  /** How many calls a host may get per second, over all orgs. Default: no limit. */
  readonly hostRate?: number;
  /** Default: runs the work immediately. */
  readonly takeTurn?: TakeTurn;
};

export type Deliveries = {
  readonly desk: DeliveryDesk;
  readonly dispatcher: Dispatcher;
  readonly promoter: Promoter;
  readonly services: readonly Service[];
  /** Call this when a delivery was queued or became due. */
  wake(): void;
};

const atOnce: TakeTurn = (_, work) => work();

/** The services that turn events into deliveries and deliveries into jobs. The handler that sends them is not included. */
export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { engine, settings, retentionMs, slots, breaker, disableAfterMs, hostRate, takeTurn = atOnce } = options;
  const { database, events, writer } = engine;
  const wake = () => promoter.wake();
  const policy = deliveryPolicy(settings);
  const desk = new DeliveryDesk({ engine, breaker, backoff: policy.backoff, disableAfterMs, takeTurn, wake });
  const dispatcher = new Dispatcher({ database, events, onQueued: wake });
  const promoter = new Promoter({
    database,
    events,
    writer,
    prepare: (request) => engine.prepare(request),
    retentionMs,
    policy,
    bounds: boundsOf(slots, { threshold: breaker.threshold, verifies: settings.verifies }),
    hostRate,
    bury: (dead) => desk.bury(dead),
  });
  return { desk, dispatcher, promoter, services: [dispatcher, promoter], wake };
}

/** Keeps half of the slots for healthy targets of many orgs, however many targets hang. */
function boundsOf(slots: number, { threshold, verifies }: { threshold: number; verifies: boolean }): LaneBounds {
  const [quarter, eighth] = [Math.ceil(slots / 4), Math.ceil(slots / 8)];
  // One call is enough to verify an endpoint.
  const unverified = verifies ? 1 : eighth;
  return { org: quarter, origin: eighth, unverified, unknown: quarter, failing: quarter, threshold };
}
