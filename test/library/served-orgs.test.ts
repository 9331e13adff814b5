import { randomUUID } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import type { JobContext, Millrace } from '../../src/index.ts';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { useBench } from './fixture.ts';

const bench = useBench();

type Seen = Pick<JobContext, 'orgId' | 'projectId'>[];

async function worker(type: string, orgs?: readonly string[]): Promise<{ millrace: Millrace; seen: Seen }> {
  const seen: Seen = [];
  const millrace = await bench.open({ concurrency: 4 });
  const handler = ({ orgId, projectId }: JobContext) => void seen.push({ orgId, projectId });
  const { status } = millrace.register({ type, handler, orgs });
  expect(status).toBe('REGISTERED');
  await millrace.start();
  return { millrace, seen };
}

it('a handler knows the org and the project of its job, however the job reached it [AB-principle.03]', async () => {
  const org = await bench.ledger.newOrg();
  const projectId = await newProject(bench.ledger.db, org);
  const { seen } = await worker('whose');
  const caller = await bench.open({ org });
  const submissions = [projectId, null].map((project) => ({ type: 'whose', payload: {}, projectId: project }));
  await caller.submitMany(Array.from({ length: 40 }, () => submissions).flat());
  await until('all jobs ran', () => seen.length, 80);
  expect(new Set(seen.map((each) => each.orgId))).toEqual(new Set([org]));
  expect(seen.filter((each) => each.projectId === projectId)).toHaveLength(40);
  expect(seen.filter((each) => each.projectId === null)).toHaveLength(40);
});

it('a job that starts with its submission has them too', async () => {
  const org = await bench.ledger.newOrg();
  const projectId = await newProject(bench.ledger.db, org);
  const seen: Seen = [];
  const millrace = await bench.open({ org, concurrency: 4 });
  millrace.register({ type: 'lone', handler: (context) => void seen.push({ orgId: context.orgId, projectId: context.projectId }) });
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'lone', payload: {}, projectId });
  await millrace.waitFor(jobId);
  expect(seen).toEqual([{ orgId: org, projectId }]);
});

it('a registration that names orgs runs their jobs and leaves those of other orgs to others [AB-sec.03]', async () => {
  const [own, other] = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
  const [ownCaller, otherCaller] = [await bench.open({ org: own }), await bench.open({ org: other })];
  const type = 'served.some';
  const foreign = await otherCaller.submitMany(Array.from({ length: 30 }, () => ({ type, payload: {} })));
  const { seen } = await worker(type, [own.toUpperCase()]);
  const jobs = await ownCaller.submitMany(Array.from({ length: 30 }, () => ({ type, payload: {} })));
  await until('the jobs of the named org ran', () => seen.length, 30);
  expect(new Set(seen.map(({ orgId }) => orgId))).toEqual(new Set([own]));
  expect(jobs.accepted).toBe(30);
  const id = foreign.results[0]?.jobId as string;
  const explained = await otherCaller.explain(id);
  expect(explained?.obstacles[0]).toMatchObject({ code: 'NO_WORKER' });
  expect(explained?.summary).toContain('for this org');
  const everyone = await worker(type);
  await until('a worker without orgs runs the others', () => everyone.seen.length, 30);
  expect(new Set(everyone.seen.map(({ orgId }) => orgId))).toEqual(new Set([other]));
});

it('a lone job of another org does not start with its submission', async () => {
  const [own, other] = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
  const seen: string[] = [];
  const millrace = await bench.open({ org: other, concurrency: 4 });
  millrace.register({ type: 'served.alone', orgs: [own], handler: (context) => void seen.push(context.orgId) });
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'served.alone', payload: {} });
  await (await bench.open({ org: own })).submit({ type: 'served.alone', payload: {} });
  await until('the job of the named org ran', () => seen.length, 1);
  expect(seen).toEqual([own]);
  expect((await millrace.get(jobId))?.state).toBe('scheduled');
});

it('workers that name no org claim with the same statement as before', async () => {
  const names = new Set<string>();
  observeStatements(({ name }) => void names.add(name));
  onTestFinished(() => observeStatements(null));
  const { millrace, seen } = await worker('served.all');
  await millrace.submitMany(Array.from({ length: 5 }, () => ({ type: 'served.all', payload: {} })));
  await until('the jobs ran', () => seen.length, 5);
  expect([...names].filter((name) => /capped|room/.test(name))).toEqual([]);
});

it.each([
  ['no org', []],
  ['a slug', ['acme']],
  ['an inherited name', ['__proto__']],
  ['text', 'acme' as unknown as string[]],
  ['too many', Array.from({ length: 1_001 }, () => randomUUID())],
])('a registration that names %s is refused', async (_, orgs) => {
  const millrace = await bench.open();
  const register = () => millrace.register({ type: 'served.none', handler: () => null, orgs });
  expect(register).toThrow(
    expect.objectContaining({
      status: 'INVALID',
      details: [{ field: expect.stringMatching(/^orgs/), code: expect.any(String), message: expect.any(String) }],
    }),
  );
});
