import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import type { TestClient } from '../http/execution-fixture.ts';
import { register, useWebhookApi } from '../http/webhook-fixture.ts';
import { until } from '../until.ts';
import { HOSTILE_RUNS, hostileName, pollution, WORST } from './names.ts';
import { type Position, positionsOf } from './positions.ts';
import { rawRequest } from './raw-request.ts';

const server = useWebhookApi();
let key: string;
let positions: Position[];

async function submitPlain(client: string): Promise<Response> {
  return fetch(`${server.url}/queue/v1/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${client}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'plain', payload: {}, tags: { a: 'b' } }),
  });
}

const keyOf = async ({ clientId }: TestClient): Promise<string> =>
  (await createKey(server.ledger.db, { orgId: clientId, scopes: API_KEY_SCOPES })).key;

beforeAll(async () => {
  const hostile = await server.org();
  key = await keyOf(hostile);
  await putOldJobs(hostile.clientId);
  const queueJob = ((await (await submitPlain(key)).json()) as { job_id: string }).job_id;
  const executionJob = await hostile.submit();
  const webhookId: string = (await register(hostile)).webhook_id;
  positions = positionsOf({ queueJob, executionJob, clientId: hostile.clientId, webhookId });
});

/** Jobs of the hostile org as an earlier version accepted them, which its counts and searches come upon. */
async function putOldJobs(orgId: string): Promise<void> {
  for (const name of RESERVED_NAMES) {
    const job = { type: name, queue: name, tags: Object.fromEntries([[name, name]]), idempotencyKey: name };
    await server.ledger.submitOne({ orgId, job: { ...job, fingerprint: 'x' } });
  }
}

/** The hostile org has its answers; another org and an operator notice nothing. */
async function expectUnharmed(): Promise<void> {
  const authorization = `Bearer ${key}`;
  const reads = ['stats?breakdown_by=TYPE,PRIORITY,STATE', 'jobs?types=__proto__,constructor', 'jobs?tags=toString:toString'];
  const answered = await Promise.all(
    reads.map((read) => fetched(() => fetch(`${server.url}/queue/v1/${read}`, { headers: { authorization } }))),
  );
  expect(answered.map(({ status }) => status)).toEqual(reads.map(() => 200));
  expect(pollution()).toEqual([]);
  const { by_type } = (await (answered[0] as Response).json()) as { by_type: object };
  expect(Object.keys(by_type)).toEqual(expect.arrayContaining([...RESERVED_NAMES]));
  const other = await server.org();
  const otherKey = await keyOf(other);
  expect((await fetched(() => submitPlain(otherKey))).status).toBe(202);
  expect(await other.reached(await other.submit(), 'SUCCEEDED', 'FAILED')).toMatchObject({ state: 'SUCCEEDED' });
  const lines = (await (await fetched(() => fetch(`${server.url}/metrics`))).text()).trimEnd().split('\n');
  expect(lines.filter((line) => line !== '' && !SERIES.test(line))).toEqual([]);
}

/** A line of the text format of Prometheus. */
const SERIES = /^(?:# (?:HELP|TYPE) \w+ .*|[a-zA-Z_:][\w:]*(?:\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? (?:[-+]?[\d.e+-]+|[+-]Inf|NaN))$/;

/** A busy machine may answer 503, and a client sends again. A name that is always answered so is waited for in vain. */
async function answers(request: Position[1], name: string): Promise<number[]> {
  let found: number[] = [];
  await until(`the server has room for ${JSON.stringify(request(name)).slice(0, 200)}`, async () => {
    found = await rawRequest(server.url, key, request(name));
    return !found.includes(503);
  });
  return found;
}

async function fetched(send: () => Promise<Response>): Promise<Response> {
  let answer: Response | undefined;
  await until('the server has room', async () => {
    answer = await send();
    return answer.status !== 503;
  });
  return answer as unknown as Response;
}

describe('a name that a program may trip over', () => {
  it('is answered in every position, and never as an error of the server', async () => {
    const wrong: string[] = [];
    for (const [what, request] of positions) {
      const statuses = await Promise.all(WORST.map((name) => answers(request, name)));
      for (const [index, found] of statuses.entries()) {
        const name = JSON.stringify(WORST[index]?.slice(0, 40));
        if (found.length === 0 || found.some((status) => status >= 500)) wrong.push(`${what}: ${name} -> ${found}`);
      }
      if (pollution().length > 0) wrong.push(`${what}: ${pollution()}`);
    }
    expect(wrong).toEqual([]);
    await expectUnharmed();
  });

  it.each(['constructor', 'toString', 'valueOf'])('is named in the refusal as it was sent: %s', async (name) => {
    const client = await server.org();
    const { status, body } = await client.post('/jobs', { type: 'EXECUTE', ...Object.fromEntries([[name, 'x']]) });
    expect([status, body.errors]).toEqual([400, [expect.objectContaining({ field: name, code: 'UNKNOWN_MEMBER' })]]);
  });

  it('is answered whatever it is made of', async () => {
    const pair = fc.tuple(hostileName, fc.nat());
    const property = fc.asyncProperty(fc.array(pair, { minLength: 8, maxLength: 8 }), async (pairs) => {
      const found = await Promise.all(
        pairs.map(async ([name, at]) => {
          const [what, request] = positions[at % positions.length] as Position;
          return { what, name, statuses: await answers(request, name) };
        }),
      );
      const isWrong = ({ statuses }: { statuses: number[] }) => statuses.length === 0 || statuses.some((status) => status >= 500);
      expect(found.filter(isWrong)).toEqual([]);
      expect(pollution()).toEqual([]);
    });
    await fc.assert(property, { numRuns: Math.ceil(HOSTILE_RUNS / 8) });
    await expectUnharmed();
  });
});
