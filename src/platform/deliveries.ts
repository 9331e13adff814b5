import type { Config } from '../config/load-config.ts';
import { DELIVERY_QUEUE, deliveryPolicy } from '../core/delivery-policy.ts';
import { MAINTENANCE_CONCURRENCY, MAINTENANCE_QUEUE } from '../core/maintenance.ts';
import { createEgress, type Egress, type EgressRequest } from '../egress/egress.ts';
import type { Engine } from '../engine/engine.ts';
import type { Service } from '../engine/loop.ts';
import type { JobContext } from '../engine/work/job-context.ts';
import type { Registration } from '../engine/work/registry.ts';
import { deliverRegistration } from '../handlers/deliver-webhook.ts';
import type { WebhookParts } from '../services/execution/context.ts';
import { createDeliveries } from '../services/webhooks/delivery-services.ts';
import { programVersion } from './program-version.ts';
import { takeTurns } from './take-turns.ts';

/** The share of the worker connections. Failed calls often end at the same time, so they get only one connection. */
const CONNECTIONS = { limit: 4, later: 1 };
/** After this many consecutive failures a target is called less often. */
const BREAKER_THRESHOLD = 5;

/** The service that sends webhooks from this process, and the parts that the API needs to manage them. */
export type Deliveries = Service & {
  readonly parts: WebhookParts;
  /** Removes deliveries past their retention. */
  prune(): Promise<{ removed: number; hasMore: boolean }>;
};

export function openEgress({ egress }: Pick<Config, 'egress'>): Egress {
  return createEgress({ ...egress, userAgent: `Millrace/${programVersion()}` });
}

export type DeliveriesParams = {
  engine: Engine;
  config: Config;
  egress: Egress;
  /** The handler of maintenance. It joins the crew, because another crew would cost each process a thread and a session. */
  maintenance?: Registration;
};

/** Call this before the engine starts: it adds a second group of workers to the engine. */
export function composeDeliveries({ engine, config, egress, maintenance }: DeliveriesParams): Deliveries {
  const { concurrency: slots, disableAfterMs, secretOverlapMs, hostRate, ...calls } = config.webhooks;
  const { retentionMs } = config.profile;
  const breaker = { threshold: BREAKER_THRESHOLD, ...calls.backoff };
  const policies = { settings: calls, breaker, disableAfterMs, hostRate };
  const takeTurn = takeTurns(CONNECTIONS);
  const { desk, promoter, services, wake } = createDeliveries({ engine, retentionMs, slots, ...policies, takeTurn });
  const fetch = (request: EgressRequest) => egress.fetch(request);
  const registration = deliverRegistration<JobContext>({ desk, fetch, ...calls });
  // Deliveries use the timeout of [webhooks], which may be longer than the one of [queue].
  const profile = deliveryPolicy(calls);
  engine.addCrew({
    name: 'webhooks',
    // Maintenance takes no slot of a delivery.
    slots: slots + MAINTENANCE_CONCURRENCY,
    queues: [DELIVERY_QUEUE, MAINTENANCE_QUEUE],
    registrations: maintenance === undefined ? [registration] : [registration, maintenance],
    profile,
    servesOneOrg: true,
  });
  return {
    parts: { guard: egress, addresses: config.egress.policy, secretOverlapMs, onQueued: wake },
    prune: () => promoter.prune(),
    async start() {
      for (const service of services) await service.start();
    },
    async stop() {
      await Promise.all(services.map((service) => service.stop()));
    },
  };
}
