import { expect, it, onTestFinished } from 'vitest';
import { verifyWebhook } from '../../src/client/index.ts';
import { openReceiver } from '../../src/simulator/webhook-receiver.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { start } from './program.ts';

const ledger = useLedger();

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at as they come
type Answer = { status: number; body: any };

class Client {
  readonly #url: string;
  readonly #key: string | null;

  constructor(url: string, key: string | null) {
    this.#url = url;
    this.#key = key;
  }

  async call(method: string, path: string, sent?: unknown): Promise<Answer> {
    const response = await fetch(`${this.#url}/v1${path}`, {
      method,
      headers: {
        ...(this.#key === null ? {} : { authorization: `Bearer ${this.#key}` }),
        ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
    });
    return { status: response.status, body: await response.json() };
  }

  async reaches(jobId: string, state: string): Promise<void> {
    await until(`job ${jobId} is ${state}`, async () => (await this.call('GET', `/jobs/${jobId}`)).body.state, state);
  }
}

async function opened() {
  const receiver = await openReceiver();
  onTestFinished(() => receiver.close());
  const program = start(['up', '--json', '--port', '0'], {
    database: ledger.db.url,
    env: {
      MILLRACE_SIMULATION_TIME_SCALE: '0.01',
      MILLRACE_WEBHOOKS_BACKOFF_BASE: '10ms',
      MILLRACE_WEBHOOKS_TIMEOUT: '60s',
      MILLRACE_EGRESS_TARGETS: new URL(receiver.url('ok')).host,
    },
  });
  const [line] = await program.said(/^.*"event":"up".*$/m);
  const { url } = JSON.parse(line) as { url: string };
  const nobody = new Client(url, null);
  const { client_id } = (await nobody.call('POST', '/clients')).body;
  const { api_key } = (await nobody.call('POST', `/clients/${client_id}/keys`, {})).body;
  return { client: new Client(url, api_key), receiver, url };
}

it('submit, cancel, retry, get, report and webhooks work together in the program [FR-19.01]', async () => {
  const { client, receiver } = await opened();
  const hook = await client.call('POST', '/webhooks', { url: receiver.url('5xx-then-ok?times=1'), events: ['*'] });
  expect(hook.status).toBe(201);

  const submitted = await client.call('POST', '/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' });
  expect(submitted.status).toBe(202);
  const jobId: string = submitted.body.job_id;
  await client.reaches(jobId, 'SUCCEEDED');
  const report = (await client.call('GET', `/jobs/${jobId}/report`)).body;
  expect(report.outcome).toBe('SUCCESS');

  const failing = (await client.call('POST', '/jobs', { type: 'EXECUTE', work_kind: 'RETRY_ON_FAIL' })).body.job_id;
  await client.reaches(failing, 'FAILED');
  expect((await client.call('POST', `/jobs/${failing}/retry`)).status).toBe(200);
  await client.reaches(failing, 'SUCCEEDED');

  const far = { type: 'DEFERRED', work_kind: 'SUCCESS_FAST', execution_at: new Date(Date.now() + 3_600_000) };
  const canceled = (await client.call('POST', '/jobs', far)).body.job_id;
  expect((await client.call('POST', `/jobs/${canceled}/cancel`)).body.state).toBe('CANCELED');

  const wanted = { [jobId]: 'job.succeeded', [failing]: 'job.succeeded', [canceled]: 'job.canceled' };
  const told = () => receiver.received().map(({ body }) => JSON.parse(body).data);
  for (const [id, name] of Object.entries(wanted)) {
    // Each arrives again after the first try was answered 500.
    await until(
      `both ${name} events have been delivered`,
      () => told().filter(({ job_id, event_name }) => job_id === id && event_name === name).length === 2,
    );
  }
  const ids = report.events.map(({ event_id }: { event_id: string }) => event_id);
  const arrived = [
    ...new Set(
      told()
        .filter((each) => each.job_id === jobId)
        .map((each) => each.event_id),
    ),
  ];
  expect(arrived).toEqual(ids);
  expect(told().some(({ job_id, event_name }) => job_id === failing && event_name === 'job.retried')).toBe(true);
  for (const message of receiver.received()) {
    expect(await verifyWebhook({ ...message, secret: hook.body.secret })).toEqual(JSON.parse(message.body));
  }
  const path = `/webhooks/${hook.body.webhook_id}`;
  await until('the webhook has nothing queued', async () => (await client.call('GET', path)).body.queued, 0);
  expect((await client.call('GET', `${path}/deliveries`)).body.deliveries[0].attempts[0].status).toBe(500);
  expect((await client.call('DELETE', path)).body).toEqual({ deleted: true });
});
