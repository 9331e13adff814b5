import { expect, it } from 'vitest';
import { readClock } from '../../src/ledger/driver/clock.ts';
import { until } from '../until.ts';
import { useDelivering } from './delivering-server.ts';
import { StrictEndpoint } from './strict-endpoint.ts';

const RATE = 10;
const JOBS = 10;
const server = useDelivering({ environment: { MILLRACE_WEBHOOKS_HOST_RATE: String(RATE), MILLRACE_WEBHOOKS_VERIFY: 'false' } });

/** The calls below this URL that are recorded, and the seconds from a time until the last of them began, by the database's clock. */
async function flowTo(url: string, since: Date): Promise<{ calls: number; seconds: number }> {
  const { rows } = await server.ledger.db.api.query(
    `SELECT count(*)::int4 AS calls, extract(epoch FROM max(c.at) - $2::timestamptz)::float8 AS seconds
     FROM (SELECT a.ended_at - a.duration_ms * interval '1 ms' AS at FROM millrace.webhook_attempts a
       JOIN millrace.webhook_deliveries d ON d.id = a.delivery_id JOIN millrace.webhooks w ON w.id = d.webhook_id
       WHERE w.url LIKE $1 || '%') c`,
    [url, since],
  );
  return rows[0];
}

it('a host gets so many calls a second over all clients and URLs, and another host does not wait for them', async () => {
  const [flooded, quiet] = [await StrictEndpoint.open('127.0.0.1'), await StrictEndpoint.open('127.0.0.2')];
  const [one, other, bystander] = [await server.client(), await server.client(), await server.client()];
  // Not from the first call on: a busy machine may record it seconds after it began, and then it seems to be later.
  const since = await readClock(server.ledger.db.api);
  for (let job = 0; job < JOBS; job++) {
    for (const client of [one, other]) await client.submit({ type: 'EXECUTE', callback: flooded.url(`/${client === one ? 1 : 2}/${job}`) });
  }
  await until('the host has been called', () => flooded.calls.length >= RATE);
  await bystander.submit({ type: 'EXECUTE', callback: quiet.url('/') });
  const isDone = (endpoint: StrictEndpoint, count: number) =>
    endpoint.calls.filter(({ type }) => type === 'job.succeeded').length === count;
  await until('the other host has its events', () => isDone(quiet, 1));
  expect(isDone(flooded, 2 * JOBS)).toBe(false);
  await until('no event is lost', () => isDone(flooded, 2 * JOBS));
  const url = flooded.url('/');
  await until('every call is recorded', async () => (await flowTo(url, since)).calls, flooded.calls.length);
  const { calls, seconds } = await flowTo(url, since);
  // A full bucket holds the calls of one second, and calls begin up to a second after they were admitted.
  expect(calls).toBeLessThanOrEqual(RATE * (seconds + 2));
});
