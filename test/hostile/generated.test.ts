import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { register, useWebhookApi } from '../http/webhook-fixture.ts';
import { until } from '../until.ts';
import { HOSTILE_RUNS, pollution } from './names.ts';
import type { GeneratedRequest } from './requests.ts';
import { requestsOf } from './requests.ts';
import { type Outcome, sendGenerated } from './send-generated.ts';

const server = useWebhookApi();
const agent = new Agent({ keepAlive: true, maxSockets: 8 });
const AT_ONCE = 20;
let requests: fc.Arbitrary<GeneratedRequest>;

beforeAll(async () => {
  server.engine.artifacts = { store: new FolderStore(tmpdir()), bucket: 'generated', maxBytes: 1_000_000, retentionMs: 86_400_000 };
  const clients = [await server.client(), await server.client()];
  const jobs = await Promise.all(clients.map((client) => client.submit()));
  const webhooks = await Promise.all(clients.map((client) => register(client)));
  const ids = {
    id: jobs,
    job_id: jobs,
    client_id: clients.map(({ clientId }) => clientId),
    webhook_id: webhooks.map(({ webhook_id }) => webhook_id as string),
  };
  requests = requestsOf(server.contract.document, { keysAt: () => clients.map(({ key }) => key as string), ids });
});

afterAll(() => agent.destroy());

/** A busy machine may answer 503, and a client sends again. A request that is always answered so is waited for in vain. */
async function send(request: GeneratedRequest): Promise<Outcome> {
  let outcome: Outcome | undefined;
  await until(`the server has room for ${request.method} ${request.target.slice(0, 200)}`, async () => {
    outcome = await sendGenerated(server.url, agent, request, server.contract);
    return outcome.status !== 503;
  });
  return outcome as unknown as Outcome;
}

it('answers every request made from its document as the document says, and none as an error of the server', async () => {
  const findings: string[] = [];
  // Few at a time, because some are large.
  for (let sent = 0; sent < 4 * HOSTILE_RUNS; sent += AT_ONCE) {
    const some = fc.sample(requests, AT_ONCE);
    const outcomes = await Promise.all(some.map(send));
    findings.push(...outcomes.flatMap(({ finding }) => finding ?? []), ...pollution());
  }
  expect(findings).toEqual([]);
});
