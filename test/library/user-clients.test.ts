import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Queryable } from '../../src/index.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { newProject } from '../ledger/new-project.ts';
import { useStage } from './fixture.ts';

const stage = useStage();
const job = { type: 'plain', payload: {} };

beforeAll(() => stage.ledger.db.maintenance.query('CREATE TABLE parcels (job_id uuid, note text)'));

type Sent = { text: string; values: readonly unknown[] };

/** A client of another library: it sends a text with plain values, and returns rows. */
function adapter(client: pg.Client): Queryable & { sent: Sent[] } {
  const sent: Sent[] = [];
  return {
    sent,
    async query(text: string, values: unknown[] = []) {
      sent.push({ text, values });
      const { rows } = await client.query(text, values);
      return { rows };
    },
  };
}

async function transaction<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await stage.connect();
  await client.query('BEGIN');
  const result = await work(client);
  await client.query('COMMIT');
  return result;
}

const isPlain = (value: unknown) => value === null || ['string', 'number', 'boolean'].includes(typeof value);

describe('a client that is not inside a transaction is refused, and no job is written', () => {
  const refused = (code: string, advice: string) => ({
    code: 'INVALID_REQUEST',
    message: expect.stringContaining(advice),
    details: [expect.objectContaining({ field: 'client', code })],
  });

  it.each<[string, () => Promise<unknown>, string, string]>([
    ['a pool', async () => stage.ledger.db.api, 'IS_A_POOL', 'Take a client with pool.connect(), send BEGIN'],
    ['a client without BEGIN', () => stage.connect(), 'NOT_IN_TRANSACTION', 'Send BEGIN on it first'],
    [
      'a client of another library without BEGIN',
      async () => adapter(await stage.connect()),
      'NOT_IN_TRANSACTION',
      'Send BEGIN on it first',
    ],
    ['an address', async () => 'postgres://localhost', 'INVALID_TYPE', 'query(text, values)'],
    ['null', async () => null, 'INVALID_TYPE', 'query(text, values)'],
    ['an object that returns no rows', async () => ({ query: async () => [] }), 'INVALID_TYPE', '{ rows }'],
  ])('%s', async (_, make, code, advice) => {
    const client = (await make()) as pg.Client;
    const before = await stage.millrace.search({ types: ['plain'] });
    await expect(stage.millrace.submit(job, { client })).rejects.toMatchObject(refused(code, advice));
    await expect(stage.millrace.submitMany([job], { client })).rejects.toMatchObject(refused(code, advice));
    const ended = await stage.end(await stage.act((context) => context.completeIn(client, 1)));
    expect(ended.lastFailure).toMatchObject({ category: 'PERMANENT', message: expect.stringContaining(advice) });
    const asserted = await stage.end(await stage.act((context) => context.assertOwned(client)));
    expect(asserted.lastFailure?.message).toContain(advice);
    expect((await stage.millrace.search({ types: ['plain'] })).totalCount).toBe(before.totalCount);
  });

  it('one whose transaction has failed', async () => {
    const client = await stage.connect();
    await client.query('BEGIN');
    await client.query('SELECT 1 / 0').catch(() => {});
    await expect(stage.millrace.submit(job, { client })).rejects.toMatchObject(refused('TRANSACTION_FAILED', 'Send ROLLBACK'));
  });
});

describe('a client of pg', () => {
  it('is not asked whether it is inside a transaction: it knows', async () => {
    await transaction(async (client) => {
      const texts: string[] = [];
      const query = client.query.bind(client) as (config: { text: string }) => Promise<pg.QueryResult>;
      Object.assign(client, {
        query: (config: { text: string } | string) => {
          texts.push(typeof config === 'string' ? config : config.text);
          return query(config as { text: string });
        },
      });
      await stage.millrace.submit(job, { client });
      expect(texts).toHaveLength(1);
      expect(texts[0]).toContain('INSERT INTO millrace.jobs');
    });
  });
});

describe('a client of another library', () => {
  it('gets plain values, and its jobs commit or roll back with its rows', async () => {
    const first = await stage.millrace.submit(stage.acting(() => 1));
    await newProject(stage.ledger.db, DEFAULT_ORG_ID, first.jobId);
    const tags = { 'quote " \\ and, comma': 'Ä 漢 {}' };
    const submissions = [
      stage.acting(() => 'plain'),
      stage.acting(() => 'tagged', { tags }),
      stage.acting(() => 'whole', {
        tags,
        idempotencyKey: 'k',
        correlationId: 'c',
        projectId: first.jobId,
        category: 'maintenance',
        delay: '1ms',
      }),
      stage.acting(() => 'dependent', { dependsOn: [first.jobId] }),
      { type: 'bytes', payload: new Uint8Array([0, 255]) },
    ];
    const client = await stage.connect();
    const other = adapter(client);
    await client.query('BEGIN');
    const gone = await stage.millrace.submit(
      stage.acting(() => 'gone'),
      { client: other },
    );
    await client.query('ROLLBACK');
    await client.query('BEGIN');
    const { results } = await stage.millrace.submitMany(submissions, { client: other });
    const ids = results.map(({ jobId }) => jobId as string);
    const again = await stage.millrace.submit(submissions[2] as never, { client: other });
    expect(again).toMatchObject({ status: 'DUPLICATE', existingJobId: ids[2] });
    await client.query('INSERT INTO parcels VALUES ($1, $2)', [ids[0], 'placed']);
    expect(await stage.millrace.get(ids[0] as string)).toBeNull();
    await client.query('COMMIT');
    expect(other.sent.flatMap(({ values }) => values).filter((value) => !isPlain(value))).toEqual([]);
    expect(await stage.millrace.get(gone.jobId)).toBeNull();
    for (const [index, output] of ['plain', 'tagged', 'whole', 'dependent'].entries())
      expect((await stage.end(ids[index] as string)).result?.output).toBe(output);
    expect((await stage.millrace.get(ids[2] as string))?.tags).toEqual(tags);
    expect(Buffer.from((await stage.millrace.get(ids[4] as string))?.payload as Uint8Array)).toEqual(Buffer.from([0, 255]));
  });

  it('completes a job, and carries checkpoints, progress and children of its transaction', async () => {
    const jobId = await stage.act(async (context) => {
      await transaction(async (client) => {
        const other = adapter(client);
        await context.assertOwned(other);
        await context.checkpoint({ step: 1 });
        await context.reportProgress(50, 'half');
        const child = await context.spawn(stage.acting(() => 'child'));
        await context.completeIn(other, { child, state: await context.lastCheckpoint() });
        expect(other.sent.flatMap(({ values }) => values).filter((value) => !isPlain(value))).toEqual([]);
      });
    });
    const ended = await stage.end(jobId);
    expect(ended.lastFailure).toBeNull();
    const output = ended.result?.output as { child: string; state: unknown } | undefined;
    expect(output?.state).toEqual({ step: 1 });
    expect((await stage.end(output?.child as string)).result?.output).toBe('child');
  });
});
