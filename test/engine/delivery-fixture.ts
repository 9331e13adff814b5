/** The real engine with the crew that delivers; what is sent goes to a function of the test instead of the network. */
import { randomUUID } from 'node:crypto';
import { afterEach } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { WebhookAttempt } from '../../src/engine/events.ts';
import type { JobContext } from '../../src/engine/work/job-context.ts';
import type { Handler } from '../../src/engine/work/registry.ts';
import { type DeliveryRequest, deliverRegistration } from '../../src/handlers/deliver-webhook.ts';
import type { DeliveryAnswer } from '../../src/handlers/delivery-verdict.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { createDeliveries, type Deliveries, type DeliveriesOptions } from '../../src/services/webhooks/delivery-services.ts';
import { type TestLedger, useLedger } from '../ledger/fixture.ts';
import { TestWebhooks } from '../ledger/webhook-fixture.ts';

export type Sent = {
  readonly messageId: string;
  readonly url: string;
  readonly event: string;
  readonly jobId: string | null;
};

type Answering = (sent: Sent, request: DeliveryRequest) => DeliveryAnswer | Promise<DeliveryAnswer>;

export const answered = (status: number, headers: Record<string, string> = {}, body = ''): DeliveryAnswer => ({
  ...{ kind: 'answered', status, headers, durationMs: 3 },
  body: Buffer.from(body),
});

export const failed = (code: string): DeliveryAnswer => ({ kind: 'failed', code, durationMs: 3 });

export const OK = answered(200);

/** A call that hangs goes on for longer than any test. */
export const CALL_MS = 60_000;

type Running = Deliveries & { engine: Engine; sent: Sent[]; attempts: WebhookAttempt[] };

type Options = Partial<Omit<DeliveriesOptions, 'engine'>> & { answer?: Answering; handlers?: Record<string, Handler> };

export type DeliveryBench = { ledger: TestLedger; webhooks: TestWebhooks; run(options?: Options): Promise<Running> };

/** Call once at the top of a test file. */
export function useDeliveries(): DeliveryBench {
  const ledger = useLedger();
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
    // What a test left under way must not be sent by the next one.
    await ledger.db.api.query('UPDATE millrace.webhooks SET deleted_at = millrace.clock() WHERE deleted_at IS NULL');
  });
  return {
    ledger,
    webhooks: new TestWebhooks(ledger),
    async run({ answer = () => OK, handlers = {}, ...options } = {}) {
      const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue, concurrency: 10 });
      const settings = options.settings ?? { timeoutMs: CALL_MS, maxRetries: 5, backoff: { initialMs: 1, maxMs: 5 }, verifies: false };
      const breaker = { threshold: 5, initialMs: 1, maxMs: 10 };
      const rest = { retentionMs: 86_400_000, slots: 16, breaker, disableAfterMs: 432_000_000 };
      const deliveries = createDeliveries({ engine, ...rest, ...options, settings });
      const sent: Sent[] = [];
      const attempts: WebhookAttempt[] = [];
      engine.events.on('webhookAttempt', (attempt) => attempts.push(attempt));
      const fetch = async (request: DeliveryRequest) => {
        const noted = noteOf(request);
        sent.push(noted);
        return answer(noted, request);
      };
      const registration = deliverRegistration<JobContext>({ desk: deliveries.desk, fetch, ...settings });
      engine.addCrew({
        name: 'webhooks',
        slots: rest.slots,
        queues: ['q:notifications'],
        registrations: [registration],
      });
      for (const [type, handler] of Object.entries(handlers)) engine.registry.register({ type, handler });
      await engine.open();
      await engine.start();
      for (const service of deliveries.services) await service.start();
      stops.push(async () => {
        for (const service of deliveries.services) await service.stop();
        await engine.close(0);
      });
      return { ...deliveries, engine, sent, attempts };
    },
  };
}

function noteOf({ url, headers, body }: DeliveryRequest): Sent {
  const { type, data } = JSON.parse(Buffer.from(body).toString());
  return { messageId: headers['webhook-id'] ?? randomUUID(), url, event: type, jobId: data.job_id ?? null };
}
