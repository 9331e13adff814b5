/** The execution API with everything that sends its webhooks, to receivers on this machine. */
import { tmpdir } from 'node:os';
import { afterAll, beforeAll } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import type { ExecutionSettings } from '../../src/core/execution/settings.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import { composeDeliveries, type Deliveries, openEgress } from '../../src/platform/deliveries.ts';
import { observeWebhooks } from '../../src/platform/webhook-telemetry.ts';
import { openReceiver, type Receiver } from '../../src/simulator/webhook-receiver.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { ExecutionServer, type TestClient } from './execution-fixture.ts';

/** As the program has it, but for waits that a test would notice, and this machine may be called. */
const SETTINGS = {
  MILLRACE_EGRESS_ALLOW: '127.0.0.0/8',
  MILLRACE_WEBHOOKS_BACKOFF_BASE: '10ms',
  MILLRACE_WEBHOOKS_BACKOFF_MAX: '50ms',
  MILLRACE_WEBHOOKS_HOST_RATE: '1000000',
};

export type DeliveringOptions = {
  execution?: Partial<ExecutionSettings>;
  /** Settings as the environment names them. */
  environment?: Readonly<Record<string, string>>;
};

export class DeliveringServer extends ExecutionServer {
  readonly #environment: Readonly<Record<string, string>>;
  readonly #deliveries: Deliveries[] = [];
  receiver!: Receiver;

  constructor(ledger: ConstructorParameters<typeof ExecutionServer>[0], options: DeliveringOptions) {
    super(ledger, options.execution ?? {});
    this.#environment = { ...SETTINGS, ...options.environment };
  }

  override async open(): Promise<void> {
    this.receiver = await openReceiver();
    await super.open();
    for (const deliveries of this.#deliveries) await deliveries.start();
  }

  override async newEngine(database?: Database): Promise<Engine> {
    const { config } = loadConfig({ environment: this.#environment, folder: tmpdir() });
    this.addresses = config.egress.policy;
    const engine = await super.newEngine(database);
    const deliveries = composeDeliveries({ engine, config, egress: openEgress(config) });
    observeWebhooks(engine.events, this.telemetry);
    this.webhooks ??= deliveries.parts;
    this.#deliveries.push(deliveries);
    return engine;
  }

  override async close(): Promise<void> {
    for (const deliveries of this.#deliveries) await deliveries.stop();
    await super.close();
    await this.receiver?.close();
  }
}

type Attempt = { status: number | null; error_code: string | null; verdict: string; duration_ms: number };
export type Delivery = { event: string; state: string; message_id: string; job_id: string; attempts: Attempt[] };

/** What the API shows of a webhook once so many deliveries are over. */
export async function deliveriesOf(client: TestClient, webhookId: string, count: number): Promise<Delivery[]> {
  let shown: Delivery[] = [];
  await until(`${count} deliveries have ended`, async () => {
    shown = (await client.get(`/webhooks/${webhookId}/deliveries`, { limit: '200' })).body.deliveries;
    return shown.length >= count && shown.every(({ state }) => state === 'delivered' || state === 'failed');
  });
  return shown;
}

/** Registers a webhook and answers its id. */
export async function register(client: TestClient, url: string, ...events: string[]): Promise<string> {
  const { status, body } = await client.post('/webhooks', { url, events });
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body.webhook_id;
}

/** Call once at the top of a test file. */
export function useDelivering(options: DeliveringOptions = {}): DeliveringServer {
  const server = new DeliveringServer(useLedger(), options);
  beforeAll(() => server.open());
  afterAll(() => server.close());
  return server;
}
