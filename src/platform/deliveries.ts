import type { Config } from '../config/load-config.ts';
import { DELIVERY_QUEUE, deliveryPolicy } from '../core/delivery-policy.ts';
import { createEgress, type Egress, type EgressRequest } from '../egress/egress.ts';
import type { Engine } from '../engine/engine.ts';
import type { Service } from '../engine/loop.ts';
import type { JobContext } from '../engine/work/job-context.ts';
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
export type Deliveries = Service & { readonly parts: WebhookParts };

export function openEgress({ egress }: Pick<Config, 'egress'>): Egress {
  return createEgress({ ...egress, userAgent: `Millrace/${programVersion()}` });
}

export type DeliveriesParams = { engine: Engine; config: Config; egress: Egress };

/** Call this before the engine starts: it adds a second group of workers to the engine. */
export function composeDeliveries({ engine, config, egress }: DeliveriesParams): Deliveries {
  const { concurrency: slots, disableAfterMs, secretOverlapMs, hostRate, ...calls } = config.webhooks;
  const { retentionMs } = config.profile;
  const breaker = { threshold: BREAKER_THRESHOLD, ...calls.backoff };
  const policies = { settings: calls, breaker, disableAfterMs, hostRate };
  const takeTurn = takeTurns(CONNECTIONS);
  const { desk, services, wake } = createDeliveries({ engine, retentionMs, slots, ...policies, takeTurn });
  const fetch = (request: EgressRequest) => egress.fetch(request);
  const registration = deliverRegistration<JobContext>({ desk, fetch, ...calls });
  // Deliveries use the timeout of [webhooks], which may be longer than the one of [queue].
  const profile = deliveryPolicy(calls);
  engine.addCrew({ name: 'webhooks', slots, queues: [DELIVERY_QUEUE], registrations: [registration], profile, servesOneOrg: true });
  return {
    parts: { guard: egress, addresses: config.egress.policy, secretOverlapMs, onQueued: wake },
    async start() {
      for (const service of services) await service.start();
    },
    async stop() {
      await Promise.all(services.map((service) => service.stop()));
    },
  };
}
