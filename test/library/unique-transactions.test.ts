/** Unique jobs that are submitted in a transaction of the user. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Submission } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useBench } from './fixture.ts';

const bench = useBench();

async function atWork() {
  const type = `index-${randomUUID()}`;
  const org = await bench.ledger.newOrg();
  const gate = new Gate();
  const seen: unknown[] = [];
  const handler = (_: unknown, payload: unknown) => {
    seen.push(payload);
    return gate.pass();
  };
  const sender = await bench.open({ org });
  const of = (version: number, unique: Submission['unique']): Submission => ({ type, payload: { version }, unique });
  return { sender, gate, seen, of, type, work: () => bench.work({ [type]: handler }, { org }) };
}

const begin = async () => {
  const client = await bench.connect();
  await client.query('BEGIN');
  return client;
};

describe('while the transaction is open', () => {
  test.each(['replace', 'replace_payload'] as const)('%s: the old job cannot start, and other jobs can', async (onConflict) => {
    const { sender, gate, seen, of, type, work } = await atWork();
    const unique = { key: 'k', until: 'started', onConflict } as const;
    await sender.submit(of(1, unique));
    const client = await begin();
    const { jobId } = await sender.submit(of(2, unique), { client });
    const worker = await work();
    gate.open();
    const others = await Promise.all([10, 11, 12].map((version) => sender.submit({ type, payload: { version } })));
    for (const other of others) await worker.waitFor(other.jobId);
    expect(seen).toHaveLength(3);
    await client.query('COMMIT');
    await worker.waitFor(jobId);
    expect(seen.at(-1)).toEqual({ version: 2 });
    expect(seen).toHaveLength(4);
    expect(await bench.violations()).toEqual([]);
  });

  test('skip until started: the job starts after the commit, so it sees what the transaction changed', async () => {
    const { sender, gate, seen, of, type, work } = await atWork();
    const unique = { key: 'k', until: 'started' } as const;
    const { jobId } = await sender.submit(of(1, unique));
    const client = await begin();
    expect(await sender.submit(of(2, unique), { client })).toMatchObject({ status: 'SKIPPED', jobId });
    const worker = await work();
    gate.open();
    const other = await sender.submit({ type, payload: { version: 10 } });
    await worker.waitFor(other.jobId);
    expect(await sender.get(jobId)).toMatchObject({ state: 'scheduled' });
    await client.query('COMMIT');
    await worker.waitFor(jobId);
    expect(seen).toEqual([{ version: 10 }, { version: 1 }]);
  });

  test('a delayed job that is due is not started with its old payload', async () => {
    const { sender, gate, seen, type, work } = await atWork();
    const debounce = { key: 'k', delay: '1ms' } as const;
    const { jobId } = await sender.submit({ type, payload: { version: 1 }, debounce });
    const client = await begin();
    await sender.submit({ type, payload: { version: 2 }, debounce }, { client });
    const worker = await work();
    gate.open();
    const other = await sender.submit({ type, payload: { version: 10 }, delay: '2ms' });
    await worker.waitFor(other.jobId);
    expect(seen).toEqual([{ version: 10 }]);
    await client.query('COMMIT');
    await worker.waitFor(jobId);
    expect(seen).toEqual([{ version: 10 }, { version: 2 }]);
  });
});

test('after a rollback the old job runs with its payload', async () => {
  const { sender, gate, seen, of, work } = await atWork();
  const unique = { key: 'k', onConflict: 'replace' } as const;
  const { jobId } = await sender.submit(of(1, unique));
  const client = await begin();
  await sender.submit(of(2, unique), { client });
  await client.query('ROLLBACK');
  const worker = await work();
  gate.open();
  await worker.waitFor(jobId);
  expect(seen).toEqual([{ version: 1 }]);
});

test('a handler submits the same key in its own transaction while its job runs', async () => {
  const org = await bench.ledger.newOrg();
  const unique = { key: 'k', until: 'started', onConflict: 'replace' } as const;
  const seen: unknown[] = [];
  const millrace = await bench.work(
    {
      again: async (context, payload) => {
        const { version } = payload as { version: number };
        seen.push(version);
        if (version === 3) return;
        await context.spawn({ type: 'again', payload: { version: version + 1 }, unique });
      },
    },
    { org },
  );
  await millrace.submit({ type: 'again', payload: { version: 1 }, unique });
  await until(
    'the last one ran',
    () => seen.length,
    (count) => count >= 3,
  );
  expect(seen).toEqual([1, 2, 3]);
});
