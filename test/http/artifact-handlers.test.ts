import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { JobContext } from '../../src/engine/work/job-context.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { until } from '../until.ts';
import { sha256Of, useArtifacts } from './artifact-fixture.ts';

const server = useArtifacts();
const PROJECT = '6f1f3a52-3a3b-4f7e-9a5e-0a5f2f6b8c01';

/** The handler of a job of this category, whatever the rules for submissions of the category are. */
const asCategory =
  <T>(category: string, handler: (context: JobContext) => Promise<T>) =>
  async (context: JobContext): Promise<T> => {
    await server.queue.ledger.db.api.query('UPDATE millrace.jobs SET category = $2 WHERE id = $1', [context.jobId, category]);
    return handler(context);
  };

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('a handler', () => {
  test('stores a file that its job refers to and its org can review [AB-cat.14] [AB-cat.15] [AB-cat.19]', async () => {
    const { caller, content } = await server.caller();
    const plan = (context: JobContext) =>
      context.artifacts.write('plan.csv', Readable.from(['a,b\n', '1,2\n']), { contentType: 'text/csv' });
    const jobId = await caller.act(asCategory('planning', plan));
    const job = await caller.reached(jobId, 'COMPLETED');
    const sha256 = sha256Of('a,b\n1,2\n');
    expect(job.result.output).toMatchObject({ name: 'plan.csv', contentType: 'text/csv', size: 8, sha256 });
    const { body } = await caller.get(`/jobs/${jobId}/artifacts`);
    expect(body.next_cursor).toBeNull();
    expect(body.items).toMatchObject([
      { artifact_id: job.result.output.artifactId, attempt: 1, sha256, owner: { org_id: caller.orgId, project_id: null, job_id: jobId } },
    ]);
    expect(job.artifacts).toEqual(body.items);
    expect(await (await content(job.result.output.artifactId)).text()).toBe('a,b\n1,2\n');
    expect(await server.actions(caller.orgId)).toMatchObject([{ event: 'artifact.created', actor: 'system:handler' }]);
  });

  test('reads the input of an import, and nothing of another org [AB-cat.18] [AB-cat.20]', async () => {
    const [one, two] = [await server.caller(), await server.caller()];
    const input = await one.upload('rows', { 'x-artifact-purpose': 'import', 'x-checksum-sha256': sha256Of('rows') });
    const id = input.body.artifact_id;
    const read = async (context: JobContext) => textOf((await context.artifacts.read(id)).body);
    const own = await one.caller.reached(await one.caller.act(asCategory('import_export', read)), 'COMPLETED');
    expect(own.result.output).toBe('rows');
    const foreign = await two.caller.reached(await two.caller.act(read, { max_attempts: 1 }), 'FAILED', 'DEAD_LETTER');
    expect(foreign.result.error.message).toContain('does not exist');
  });

  test('in a project stores files of the project', async () => {
    const { caller } = await server.caller();
    const inside = await caller.inProject(PROJECT);
    const jobId = await inside.act((context) => context.artifacts.write('a', 'x'));
    await inside.reached(jobId, 'COMPLETED');
    expect((await inside.get(`/jobs/${jobId}/artifacts`)).body.items).toMatchObject([{ owner: { project_id: PROJECT } }]);
  });

  test.each(['notification', 'audit_enrichment', 'maintenance'])('of the category %s may not use files', async (category) => {
    const { caller } = await server.caller();
    const write = (context: JobContext) => context.artifacts.write('a', 'x');
    const jobId = await caller.act(asCategory(category, write), { max_attempts: 1 });
    const job = await caller.reached(jobId, 'FAILED', 'DEAD_LETTER');
    expect(job.result.error.message).toBe(
      `Jobs of the category ${category} may not use artifacts. Use the category planning or import_export.`,
    );
    expect(await server.rows(caller.orgId)).toEqual([]);
  });

  test('that runs again replaces the file of the attempt before', async () => {
    const { caller, content } = await server.caller();
    const jobId = await caller.act(async (context) => {
      await context.artifacts.write('out.txt', `attempt ${context.attempt}`);
      if (context.attempt === 1) throw new Error('once more');
    });
    await caller.reached(jobId, 'COMPLETED');
    const { items } = (await caller.get(`/jobs/${jobId}/artifacts`)).body;
    expect(items).toMatchObject([{ name: 'out.txt', attempt: 2 }]);
    expect(await (await content(items[0].artifact_id)).text()).toBe('attempt 2');
  });

  test('whose job belongs to another attempt by now stores nothing', async () => {
    const { caller } = await server.caller();
    // Before the job exists, because its handler may run before the submission is answered.
    const seen: string[] = [];
    const jobId = await caller.act(async (context) => {
      if (context.attempt > 1) return 'second';
      async function* slowly() {
        yield Buffer.from('half');
        await server.queue.ledger.db.api.query(`UPDATE millrace.jobs SET lease_seq = nextval('millrace.lease_seq') WHERE id = $1`, [
          context.jobId,
        ]);
        yield Buffer.from('of it');
      }
      const error = await context.artifacts.write('late.txt', slowly()).catch((cause: unknown) => cause);
      seen.push(error instanceof Error ? error.name : 'written');
      throw error;
    });
    await until('the write has ended', () => seen.length > 0);
    expect(seen).toEqual(['LeaseLostError']);
    expect((await caller.get(`/jobs/${jobId}/artifacts`)).body.items).toEqual([]);
    expect(await server.rows(caller.orgId)).toEqual([]);
    expect(server.objects(caller.orgId)).toEqual([]);
  });

  test('that writes in its own transaction shows the file when that commits', async () => {
    const { caller } = await server.caller();
    let before: unknown = null;
    const jobId = await caller.act(async (context) => {
      await inTransaction(server.queue.ledger.db.api, async (client) => {
        await context.assertOwned(client);
        await context.artifacts.write('a.txt', 'x');
        before = (await caller.get(`/jobs/${context.jobId}/artifacts`)).body.items;
      });
      return context.artifacts.list();
    });
    const job = await caller.reached(jobId, 'COMPLETED');
    expect(before).toEqual([]);
    expect(job.result.output).toMatchObject([{ name: 'a.txt', size: 1 }]);
  });

  test.each([
    ['a name with NUL', (context: JobContext) => context.artifacts.write('a\0', 'x')],
    ['no name', (context: JobContext) => context.artifacts.write(undefined as never, 'x')],
    ['no bytes', (context: JobContext) => context.artifacts.write('a', 7 as never)],
    ['a stream of objects', (context: JobContext) => context.artifacts.write('a', Readable.from([{}]) as never)],
    ['another checksum', (context: JobContext) => context.artifacts.write('a', 'x', { sha256: sha256Of('y') })],
    ['an unknown option', (context: JobContext) => context.artifacts.write('a', 'x', { type: 'text/csv' } as never)],
    ['a header in the content type', (context: JobContext) => context.artifacts.write('a', 'x', { contentType: 'a\r\nb: c' })],
    ['too many bytes', (context: JobContext) => context.artifacts.write('a', new Uint8Array(server.storage.maxBytes + 1))],
    ['a stream that fails', (context: JobContext) => context.artifacts.write('a', Readable.from(failing()))],
  ])('gets an error for %s, and nothing is stored', async (_, write) => {
    const { caller } = await server.caller();
    const job = await caller.reached(await caller.act(write, { max_attempts: 1 }), 'FAILED', 'DEAD_LETTER');
    expect(job.result.error.message).not.toBe('');
    expect(await server.rows(caller.orgId)).toEqual([]);
    expect(server.drafts()).toEqual([]);
  });

  test('learns that its process has no place for files', async () => {
    const { caller } = await server.caller();
    server.queue.engine.artifacts = null;
    try {
      const jobId = await caller.act((context) => context.artifacts.write('a', 'x'), { max_attempts: 1 });
      const job = await caller.reached(jobId, 'FAILED', 'DEAD_LETTER');
      expect(job.result.error.message).toContain('Open Millrace with the option objects');
    } finally {
      server.queue.engine.artifacts = server.storage;
    }
  });
});

test('the list has pages, and a cursor belongs to its job', async () => {
  const { caller } = await server.caller();
  const write = async (context: JobContext) => {
    for (const name of ['a', 'b', 'c']) await context.artifacts.write(name, name);
  };
  const [one, two] = [await caller.act(write), await caller.act(write)];
  await caller.reached(one, 'COMPLETED');
  await caller.reached(two, 'COMPLETED');
  const first = (await caller.get(`/jobs/${one}/artifacts`, { limit: '2' })).body;
  const second = (await caller.get(`/jobs/${one}/artifacts`, { limit: '2', cursor: first.next_cursor })).body;
  expect([...first.items, ...second.items].map(({ name }) => name)).toEqual(['a', 'b', 'c']);
  expect(second.next_cursor).toBeNull();
  expect((await caller.get(`/jobs/${two}/artifacts`, { cursor: first.next_cursor })).status).toBe(400);
  expect((await caller.get('/jobs/3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11/artifacts')).status).toBe(404);
});

async function* failing() {
  yield Buffer.from('x');
  throw new Error('the source is gone');
}
