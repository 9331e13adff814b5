/** Webhooks over the API, with names that lead where a test says. Nothing is sent anywhere. */
import { afterAll, beforeAll, expect } from 'vitest';
import { PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import { createEgress } from '../../src/egress/egress.ts';
import type { Resolver } from '../../src/egress/resolver.ts';
import { useLedger } from '../ledger/fixture.ts';
import { ExecutionServer, randomId, type TestClient } from './execution-fixture.ts';

/** A public address: nothing is ever sent to it here. */
/** The bytes behind `whsec_`, which Standard Webhooks writes in base64. */
export const secretBytes = (secret: string): Buffer => Buffer.from(secret.replace(/^whsec_/, ''), 'base64');

export const PUBLIC_URL = 'https://93.184.215.14/hook';

/** What names lead to; those that are not here lead nowhere. */
const NAMES: ReadonlyMap<string, readonly string[]> = new Map([
  ['public.example', ['93.184.215.14']],
  ['inside.example', ['10.0.0.1']],
  ['mixed.example', ['93.184.215.14', '127.0.0.1']],
]);

const resolver: Resolver = { resolve: async (host) => NAMES.get(host) ?? [] };

const LIMITS = { connectTimeoutMs: 2_000, dnsTimeoutMs: 1_000, userAgent: 'Millrace/test', resolver };

/** The API alone: what is queued stays queued. Only public addresses may be named. */
export function useWebhookApi(): ExecutionServer & { hints: number } {
  const server = Object.assign(new ExecutionServer(useLedger(), {}), { hints: 0 });
  server.addresses = PUBLIC_ONLY;
  server.webhooks = {
    ...{ guard: createEgress({ policy: PUBLIC_ONLY, ...LIMITS }), addresses: PUBLIC_ONLY, secretOverlapMs: 86_400_000 },
    onQueued: () => {
      server.hints++;
    },
  };
  beforeAll(() => server.open());
  afterAll(() => server.close());
  return server;
}

/** Registers a webhook, of a public address and for everything unless told. Answers what the API did. */
// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export async function register(client: TestClient, given: object = {}): Promise<any> {
  const url = `https://public.example/${randomId()}`;
  const { status, body } = await client.post('/webhooks', { url, events: ['*'], ...given });
  expect([status, body]).toEqual([201, expect.objectContaining({ webhook_id: expect.any(String) })]);
  return body;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export async function deliveriesOf(client: TestClient, webhookId: string, query = {}): Promise<any[]> {
  return (await client.get(`/webhooks/${webhookId}/deliveries`, query)).body.deliveries;
}
