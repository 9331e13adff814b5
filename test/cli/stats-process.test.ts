/** The statistics of a real process over HTTP. */
import { expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { keyOf, post, startUp } from './observed-process.ts';

const ledger = useLedger();

const LATENCY = { p50: expect.any(String), p90: expect.any(String), p99: expect.any(String), max: expect.any(String) };
const COUNTS = { pending: expect.any(Number), running: expect.any(Number), completed: expect.any(Number), failed: expect.any(Number) };

it('has every count, rate, latency and breakdown [GA-2.50] [GA-2.51] [GA-2.52] [GA-2.53] [GA-2.54] [GA-2.55] [GA-2.56] [GA-2.57] [GA-2.58] [GA-2.59] [GA-2.60] [GA-2.61] [GA-2.62] [GA-2.63] [GA-2.64] [GA-2.65] [GA-2.66] [GA-2.67] [GA-2.68] [GA-2.69] [GA-2.70] [GA-2.71] [GA-2.72] [GA-2.73] [GA-2.74]', async () => {
  const { url } = await startUp(ledger);
  const { headers } = await keyOf(ledger);
  const submit = (payload: object, more: object = {}) =>
    post(`${url}/queue/v1/jobs`, { headers, body: { type: 'simulate', payload, ...more } });
  await submit({ duration_ms: 1 });
  await submit({ duration_ms: 1, failure: 'PERMANENT' });
  await submit({ duration_ms: 1, failure: 'TEMPORARY', fail_times: 9 }, { max_attempts: 1 });
  await submit({ duration_ms: 1 }, { delay: 'PT1H' });
  const read = async (): Promise<Record<string, unknown>> => {
    const query = 'time_range=PT1H&breakdown_by=TYPE&breakdown_by=PRIORITY&breakdown_by=STATE';
    const response = await fetch(`${url}/queue/v1/stats?${query}`, { headers });
    expect([response.status, response.status === 200 ? '' : await response.clone().text()]).toEqual([200, '']);
    return (await response.json()) as Record<string, unknown>;
  };
  await until('the jobs have ended and are measured', async () => {
    const { completed, failed, dead_letter, pending, scheduled, running, queue_latency, execution_time } = await read();
    return [completed, failed, dead_letter, pending, scheduled, running, queue_latency != null, execution_time != null];
  }, [1, 1, 1, 0, 0, 0, true, true]);
  const stats = await read();
  expect(stats).toMatchObject({ pending: 0, scheduled: 0, running: 0, delayed: 1, queue_latency: LATENCY, execution_time: LATENCY });
  for (const name of ['submission_rate', 'completion_rate', 'failure_rate']) expect([name, typeof stats[name]]).toEqual([name, 'number']);
  expect(stats).toMatchObject({ by_type: { simulate: COUNTS } });
  for (const name of ['by_priority', 'by_state']) {
    const groups = Object.values(stats[name] as Record<string, unknown>);
    expect(groups.length).toBeGreaterThan(0);
    for (const group of groups) expect(group).toEqual(COUNTS);
  }
});
