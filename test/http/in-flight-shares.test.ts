import { expect, it, onTestFinished } from 'vitest';
import { until } from '../until.ts';
import { QUEUE, useQueue } from './queue-fixture.ts';
import { dial, IDENTITY, serve } from './server-fixture.ts';

const MAX = 20;
const queue = useQueue();

const job = { type: 'nobody', payload: {} };

/** Opens connections that send the beginning of a body, and no more of it. */
async function trickle(count: number, { port, path, key }: { port: number; path: string; key?: string }) {
  const sockets = await Promise.all(Array.from({ length: count }, () => dial(port)));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  const authorization = key === undefined ? '' : `authorization: Bearer ${key}\r\n`;
  for (const socket of sockets)
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${authorization}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{`,
    );
  return { refused: () => sockets.filter((socket) => socket.received() !== '').map((socket) => socket.received()) };
}

it('bodies that do not arrive take no place of another org, and their own org gets its share of them', async () => {
  const url = await queue.listen({ maxInFlight: MAX });
  queue.url = url;
  const hostile = await queue.ledger.newOrg();
  const key = await queue.keyOf(hostile, ['jobs:write']);
  const { refused } = await trickle(2 * MAX, { port: Number(new URL(url).port), path: `${QUEUE}/jobs`, key });
  await until('the hostile org has its share', () => refused().length, 2 * MAX - MAX / 2);
  for (const answer of refused()) {
    expect(answer).toMatch(/^HTTP\/1\.1 429 /);
    expect(answer).toContain('org_requests_in_flight');
    expect(answer).toContain('limits.org_share');
  }
  const other = await queue.caller();
  const answers = await Promise.all(Array.from({ length: MAX }, () => other.get('/stats')));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(MAX / 2);
  for (let n = 0; n < 5; n++) expect((await other.post('/jobs', job)).status).toBe(202);
});

it('bodies of callers without a key take no place of callers with one, from the same address either', async () => {
  const { port, url } = await serve({ maxInFlight: MAX, authenticator: { authenticate: async () => IDENTITY } });
  const { refused } = await trickle(2 * MAX, { port, path: '/test/echo' });
  await until('the address has its share', () => refused().length, 2 * MAX - MAX / 2);
  expect(refused()[0]).toMatch(/^HTTP\/1\.1 503 /);
  expect(refused()[0]?.toLowerCase()).toContain('retry-after: 1');
  const id = crypto.randomUUID();
  const read = await fetch(`${url}/test/orders/${id}`, { headers: { authorization: 'Bearer anything' } });
  expect([read.status, ((await read.json()) as { id: string }).id]).toEqual([200, id]);
});

it('requests that are handled count apart from those that arrive', async () => {
  const url = await queue.listen({ maxInFlight: 2 });
  queue.url = url;
  const { port } = new URL(url);
  const orgs: Awaited<ReturnType<typeof trickle>>[] = [];
  for (let org = 0; org < 3; org++) {
    const key = await queue.keyOf(await queue.ledger.newOrg(), ['jobs:write']);
    orgs.push(await trickle(1, { port: Number(port), path: `${QUEUE}/jobs`, key }));
  }
  // The keys are read first, so any of the three may come last.
  await until('the places for bodies are taken', () => orgs.flatMap(({ refused }) => refused()).length, 1);
  expect((await (await queue.caller()).get('/stats')).status).toBe(200);
});
