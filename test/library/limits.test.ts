import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Millrace, Submission } from '../../src/index.ts';
import { until } from '../until.ts';
import { allEnded, Gate, useBench } from './fixture.ts';

const bench = useBench();

const invalid = (field: string, words: string) => ({
  code: 'INVALID_REQUEST',
  details: expect.arrayContaining([expect.objectContaining({ field, message: expect.stringContaining(words) })]),
});

/** Counts how many handlers of each key run at the same time. */
class Meter {
  most = 0;
  ran = 0;
  #now = 0;
  readonly seen: unknown[] = [];

  readonly handler = async (_: unknown, payload: unknown): Promise<void> => {
    this.seen.push(payload);
    this.most = Math.max(this.most, ++this.#now);
    await new Promise((resolve) => setImmediate(resolve));
    this.#now--;
    this.ran++;
  };
}

const many = (count: number, submission: Submission): Submission[] => Array.from({ length: count }, () => submission);

async function submitAll(millrace: Millrace, submissions: readonly Submission[]): Promise<string[]> {
  const { results } = await millrace.submitMany(submissions);
  return results.map((result) => (result as { jobId: string }).jobId);
}

describe('jobs that share a limit', () => {
  test('run one at a time over several engines, and all of them run', async () => {
    const meter = new Meter();
    const type = `serial-${randomUUID()}`;
    const [first] = await Promise.all([bench.work({ [type]: meter.handler }), bench.work({ [type]: meter.handler })]);
    const ids = await submitAll(first, many(60, { type, payload: {}, limit: { key: 'one', concurrency: 1 } }));
    await allEnded(first, ids);
    expect(meter).toMatchObject({ most: 1, ran: 60 });
    expect(await bench.violations()).toEqual([]);
  });

  test('do not hold up jobs with another key, or without one', async () => {
    const gate = new Gate();
    const type = `free-${randomUUID()}`;
    const millrace = await bench.work({ [type]: (_, payload) => ((payload as { waits?: true }).waits ? gate.pass() : undefined) });
    const blocked = await submitAll(millrace, many(40, { type, payload: { waits: true }, limit: { key: 'blocked', concurrency: 1 } }));
    const others = await submitAll(millrace, [
      { type, payload: {} },
      { type, payload: {}, limit: { key: 'other', concurrency: 1 } },
    ]);
    await allEnded(millrace, others);
    await gate.reached();
    const explain = async () => (await millrace.explain(blocked.at(-1) as string)) ?? { obstacles: [], facts: null };
    // A worker that got no processor for a second counts as stalled until its next heartbeat.
    await until('only the limit is in the way', async () => (await explain()).obstacles.map(({ code }) => code), ['LIMIT']);
    const { obstacles, facts } = await explain();
    const message = /^The limit of the key "blocked" allows 1 at the same time: 1 job with it run.* 38 jobs/;
    expect(obstacles).toContainEqual({ code: 'LIMIT', message: expect.stringMatching(message) });
    expect(facts?.limit).toMatchObject({ key: 'blocked', running: 1, ahead: 38, runningIds: [blocked[0]] });
    gate.open();
    await allEnded(millrace, blocked);
  });

  test('are those of one org: another org with the same key has its own slots', async () => {
    const gate = new Gate();
    const type = `orgs-${randomUUID()}`;
    const running = new Set<string>();
    const handler = (_: unknown, payload: unknown) => {
      running.add((payload as { name: string }).name);
      return gate.pass();
    };
    const orgs = await Promise.all([bench.ledger.newOrg(), bench.ledger.newOrg()]);
    const worker = await bench.work({ [type]: handler });
    const doors = await Promise.all(orgs.map((org) => bench.open({ org })));
    const limit = { key: 'same', concurrency: 1 };
    const ids = await Promise.all(
      doors.map((door, n) =>
        submitAll(
          door,
          [`${n}a`, `${n}b`].map((name) => ({ type, payload: { name }, limit })),
        ),
      ),
    );
    await until('a job of each org runs', () => running.size === 2);
    expect([...running].toSorted()).toEqual(['0a', '1a']);
    gate.open();
    await Promise.all(doors.map((door, n) => allEnded(door, ids[n] as string[])));
    await worker.drain();
  });

  test('start again after a failed attempt', async () => {
    const type = `retry-${randomUUID()}`;
    let failures = 3;
    const handler = () => {
      if (failures-- > 0) throw new Error('not now');
    };
    const millrace = await bench.work({ [type]: handler });
    const backoff = { initialDelay: '1ms', maxDelay: '1ms' };
    const ids = await submitAll(
      millrace,
      many(3, { type, payload: {}, maxAttempts: 5, backoff, limit: { key: 'retries', concurrency: 1 } }),
    );
    await allEnded(millrace, ids);
    expect(await bench.violations()).toEqual([]);
  });

  test('a parent that waits for its children does not block them', async () => {
    const type = `family-${randomUUID()}`;
    const millrace = await bench.open();
    const limit = { key: 'family', concurrency: 1 };
    millrace.register({
      type,
      fanIn: true,
      handler: async (context, payload) => {
        if ((payload as { isParent?: true }).isParent) await context.spawn({ type, payload: {}, limit });
      },
    });
    await millrace.start();
    const { jobId } = await millrace.submit({ type, payload: { isParent: true }, limit });
    await allEnded(millrace, [jobId]);
  });

  test('a job inside a transaction of the caller gets its limit when the transaction commits', async () => {
    const type = `within-${randomUUID()}`;
    const meter = new Meter();
    const millrace = await bench.work({ [type]: meter.handler });
    const client = await bench.connect();
    await client.query('BEGIN');
    const limit = { key: `new-${type}`, concurrency: 1 };
    const inside = await millrace.submit({ type, payload: { is: 'inside' }, limit }, { client });
    const outside = await millrace.submit({ type, payload: { is: 'outside' }, limit });
    await allEnded(millrace, [outside.jobId]);
    expect(meter.seen).toEqual([{ is: 'outside' }]);
    await client.query('COMMIT');
    await allEnded(millrace, [inside.jobId]);
  });
});

describe('where a limit comes from', () => {
  const shown = async (millrace: Millrace, submission: Submission) => {
    const { jobId } = await millrace.submit(submission);
    return (await millrace.get(jobId))?.limit;
  };

  test('the submission, else the type, else the queue', async () => {
    const type = `source-${randomUUID()}`;
    const queue = `q:${randomUUID()}`;
    const millrace = await bench.open();
    millrace.register({ type, handler: () => {}, limit: { key: 'customer {payload.customer.id}', concurrency: 1 } });
    await millrace.queues.configure(queue, { limit: { key: 'queue {payload.n}', rate: 5, per: '1m' } });
    const payload = { customer: { id: 7 }, n: true };
    expect(await shown(millrace, { type, payload, queue, limit: { key: '{payload.n}', concurrency: 2 } })).toEqual({
      key: '{payload.n}',
      concurrency: 2,
      rate: null,
      perMs: null,
    });
    expect(await shown(millrace, { type, payload, queue })).toMatchObject({ key: 'customer 7', concurrency: 1 });
    expect(await shown(millrace, { type: 'unregistered', payload, queue })).toMatchObject({ key: 'queue true', rate: 5, perMs: 60_000 });
    expect(await shown(millrace, { type: 'unregistered', payload })).toBeNull();
    await millrace.queues.configure(queue, { limit: null });
    expect(await shown(millrace, { type: 'unregistered', payload, queue })).toBeNull();
  });

  test('a payload without a member of the key is refused, also a member that every object inherits', async () => {
    const millrace = await bench.open();
    for (const path of ['customer.id', '__proto__.name', 'constructor.name', 'toString']) {
      const type = `missing-${randomUUID()}`;
      millrace.register({ type, handler: () => {}, limit: { key: `{payload.${path}}`, concurrency: 1 } });
      const refused = invalid(`payload.${path}`, `the key of the limit of type ${type} contains it`);
      for (const payload of [{}, { customer: {} }, { customer: null }, { customer: [] }, Buffer.from('bytes')]) {
        await expect(millrace.submit({ type, payload })).rejects.toMatchObject(refused);
      }
    }
  });

  test('a key that the payload makes too long is refused', async () => {
    const type = `long-${randomUUID()}`;
    const millrace = await bench.open();
    millrace.register({ type, handler: () => {}, limit: { key: 'c {payload.id}', concurrency: 1 } });
    await expect(millrace.submit({ type, payload: { id: 'x'.repeat(10_000) } })).rejects.toMatchObject(invalid('limit.key', '256'));
  });

  test('a schedule keeps the limit of its template', async () => {
    const type = `scheduled-${randomUUID()}`;
    const millrace = await bench.work({ [type]: () => {} });
    const submission = { type, payload: {}, limit: { key: 'nightly', concurrency: 1 } };
    await millrace.schedule(type, { cron: '* * * * * *', submission });
    await until('the schedule fired', async () => {
      const { jobs } = await millrace.search({ types: [type] });
      return jobs[0]?.limit?.key === 'nightly';
    });
    await millrace.unschedule(type);
  });
});

describe('a limit that is not valid is refused', () => {
  test.each<[unknown, string, string]>([
    ['mail', 'limit', 'must be an object'],
    [{ concurrency: 1 }, 'limit.key', 'is required'],
    [{ key: 'a' }, 'limit', 'must have a member concurrency'],
    [{ key: '', concurrency: 1 }, 'limit.key', 'must not be empty'],
    [{ key: 'a\0b', concurrency: 1 }, 'limit.key', 'control characters'],
    [{ key: 'x'.repeat(10_000), concurrency: 1 }, 'limit.key', 'at most 256'],
    [{ key: '\ud800', concurrency: 1 }, 'limit.key', 'valid Unicode'],
    [{ key: 7, concurrency: 1 }, 'limit.key', 'must be a string'],
    [{ key: 'a', concurrency: 0 }, 'limit.concurrency', 'from 1 to 10000'],
    [{ key: 'a', concurrency: 1.5 }, 'limit.concurrency', 'from 1 to 10000'],
    [{ key: 'a', rate: 10_001, per: '1s' }, 'limit.rate', 'from 1 to 10000'],
    [{ key: 'a', rate: 1 }, 'limit.per', 'is required with limit.rate'],
    [{ key: 'a', concurrency: 1, per: '1s' }, 'limit.rate', 'is required with limit.per'],
    [{ key: 'a', rate: 1, per: '10ms' }, 'limit.per', 'from 1s to 24h'],
    [{ key: 'a', rate: 1, per: '2d' }, 'limit.per', 'from 1s to 24h'],
    [{ key: 'a', rate: 1, per: 'soon' }, 'limit.per', 'is not valid'],
    [{ key: 'a', concurency: 1 }, 'limit.concurency', 'did you mean concurrency'],
  ])('%j', async (limit, field, words) => {
    const millrace = await bench.open();
    const submission = { type: 'refused', payload: {}, limit } as Submission;
    await expect(millrace.submit(submission)).rejects.toMatchObject(invalid(field, words));
    await expect(millrace.queues.configure('q:default', { limit: limit as never })).rejects.toMatchObject(invalid(field, words));
  });

  test('in a registration, braces are only for members of the payload', async () => {
    const millrace = await bench.open();
    for (const key of ['{customer}', '{payload}', 'a{', '}', '{payload.a{payload.b}}']) {
      await expect(millrace.queues.configure('q:default', { limit: { key, concurrency: 1 } })).rejects.toMatchObject(
        invalid('limit.key', '{payload.customer.id}'),
      );
    }
  });

  test.each(['__proto__', 'constructor', "'; DROP TABLE millrace.limits; --", '{payload.x}', '\n', '💥', '%s'])(
    'the key %j is only a key',
    async (key) => {
      const meter = new Meter();
      const type = `hostile-${randomUUID()}`;
      const millrace = await bench.work({ [type]: meter.handler });
      const ids = await submitAll(millrace, many(3, { type, payload: {}, limit: { key, concurrency: 1 } }));
      await allEnded(millrace, ids);
      expect(meter).toMatchObject({ most: 1, ran: 3 });
      expect((await millrace.get(ids[0] as string))?.limit?.key).toBe(key);
    },
  );
});
