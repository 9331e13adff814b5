/** Governed jobs in workers: what their handlers are told and may do, how their failures end, and whose jobs run at all. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Handler, PermanentError, TemporaryError } from '../../src/index.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { AT_ONCE, pathOf, useStage } from './fixture.ts';
import { submitBySql } from './sql-submission.ts';

const GRANTED = 'plan.granted';
const stage = useStage({ categories: { planning: { assignmentGrants: [GRANTED] } } });

const MAIL = { recipient: 'ada@example.com', template: 'welcome' };

/** The output of a governed job, or its failure. */
async function outcomeOf(handler: Handler, submission: object) {
  const { result, state } = await stage.end(await stage.act(handler, submission));
  return state === 'completed' ? result?.output : result?.error;
}

describe('the context of a governed job', () => {
  it('has the whole envelope [AB-contract.02] [AB-contract.03] [AB-contract.04] [AB-contract.05] [AB-contract.06] [AB-contract.07] [AB-contract.08] [AB-contract.09] [AB-principle.01] [AB-principle.03]', async () => {
    const projectId = await newProject(stage.ledger.db, DEFAULT_ORG_ID);
    const facts: Handler = ({ orgId, actor, requestId, correlationId, category, idempotencyKey, projectId: project, jobId, type }) => ({
      ...{ orgId, actor, requestId, correlationId, category, idempotencyKey, project, jobId, type },
    });
    const seen = (await outcomeOf(facts, { category: 'planning', projectId })) as Record<string, string>;
    expect(seen).toMatchObject({
      ...{ orgId: expect.any(String), project: projectId, actor: { type: 'system', id: 'millrace' }, category: 'planning', type: 'act' },
      ...{ requestId: seen.jobId, correlationId: seen.jobId },
      idempotencyKey: expect.stringMatching(new RegExp(`^act:${seen.orgId}:${projectId}:[0-9a-f]{64}$`)),
    });
    const plain = (await outcomeOf(facts, {})) as Record<string, string>;
    expect(plain).toMatchObject({ category: null, idempotencyKey: `act:${plain.orgId}:${plain.jobId}` });
    const inProject = (await outcomeOf(facts, { projectId })) as Record<string, string>;
    expect(inProject.idempotencyKey).toBe(`act:${inProject.orgId}:${projectId}:${inProject.jobId}`);
  });

  it('does not let audit enrichment spawn jobs [AB-cat.10]', async () => {
    const spawn: Handler = (context) => context.spawn({ type: 'act', payload: {} });
    expect(await outcomeOf(spawn, { category: 'audit_enrichment' })).toMatchObject({
      category: 'PERMANENT',
      code: 'FORBIDDEN',
      message: expect.stringMatching(/^The handler of act may not spawn jobs: it runs a job of the category audit_enrichment\./),
    });
  });
});

describe('assignments', () => {
  const command = { command: 'assign' };
  const assign: Handler = async (context) => context.assignments.write({ task: 't-1', to: 'ada' });

  it('are written by a planning job with the command and the grant [AB-cat.13]', async () => {
    const written: unknown[] = [];
    const millrace = await stage.open({ categories: { planning: { assignmentGrants: [GRANTED] } } });
    millrace.register({ type: GRANTED, handler: assign, assignments: (assignment, job) => void written.push({ assignment, ...job }) });
    await millrace.start();
    const submit = (payload: object, category: 'planning' | 'import_export' | null = 'planning') =>
      millrace.submit({ type: GRANTED, category, payload: { ...payload, id: randomUUID() } });
    const { jobId } = await submit(command);
    expect(await millrace.waitFor(jobId)).toMatchObject({ state: 'completed' });
    expect(written).toEqual([expect.objectContaining({ assignment: { task: 't-1', to: 'ada' }, jobId, projectId: null })]);
    const failureOf = async (id: string) => (await millrace.waitFor(id)).lastFailure;
    expect(await failureOf((await submit({})).jobId)).toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('"command": "assign"'),
    });
    for (const category of ['import_export', null] as const)
      expect(await failureOf((await submit(command, category)).jobId)).toMatchObject({ code: 'FORBIDDEN', category: 'PERMANENT' });
    expect(written).toHaveLength(1);
  });

  it('are refused without the grant of the operator, and without a writer [AB-cat.13]', async () => {
    const handler: Handler = assign;
    expect(await outcomeOf(handler, { category: 'planning', payload: command })).toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('assignment_grants of [categories.planning]'),
    });
    const millrace = await stage.open({ categories: { planning: { assignmentGrants: [GRANTED] } } });
    millrace.register({ type: GRANTED, handler });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: GRANTED, category: 'planning', payload: { ...command, id: randomUUID() } });
    expect((await millrace.waitFor(jobId)).lastFailure).toMatchObject({
      code: 'INVALID_REQUEST',
      message: expect.stringContaining('no writer'),
    });
  });
});

describe('failures of governed jobs', () => {
  const fail =
    (make: () => unknown): Handler =>
    () =>
      Promise.reject(make());

  it.each([
    ['validation', () => Object.assign(new Error('name is missing'), { name: 'ValidationError' })],
    ['a missing member', () => new PermanentError('recipient is missing', { code: 'MISSING_FIELD' })],
    ['authorization', () => Object.assign(new Error('no'), { status: 403 })],
    ['ownership', () => Object.assign(new Error('no'), { code: '42501' })],
    ['a conflict', () => Object.assign(new Error('no'), { status: 409 })],
    ['a forbidden change of state', () => new PermanentError('the order is closed', { code: 'ILLEGAL_STATE' })],
  ])('%s is not retried [AB-retry.13] [AB-retry.14] [AB-retry.15] [AB-accept.03]', async (_, make) => {
    const jobId = await stage.act(fail(make), { category: 'planning' });
    expect(await stage.end(jobId)).toMatchObject({ state: 'failed', attempt: 1 });
    expect(await stage.path(jobId)).toContain('running>failed:permanent_failure');
  });

  it.each([
    ['a network timeout', () => Object.assign(new Error('no'), { code: 'ETIMEDOUT' })],
    ['a timeout of a client', () => Object.assign(new Error('no'), { code: 'UND_ERR_HEADERS_TIMEOUT' })],
    ['a deadlock', () => Object.assign(new Error('no'), { code: '40P01' })],
    ['a lost connection to a database', () => Object.assign(new Error('no'), { code: '08006' })],
    ['a 503 of a provider', () => Object.assign(new Error('no'), { status: 503 })],
    ['a rate limit', () => Object.assign(new Error('no'), { status: 429 })],
    ['a temporary error', () => new TemporaryError('no')],
  ])('%s is retried [AB-retry.16] [AB-retry.17] [AB-retry.18] [AB-retry.19] [AB-principle.02]', async (_, make) => {
    let attempts = 0;
    const handler: Handler = () => (++attempts === 1 ? Promise.reject(make()) : 'done');
    expect(await stage.end(await stage.act(handler, { category: 'planning' }))).toMatchObject({ state: 'completed', attempt: 2 });
  });

  it('a rate limit waits as long as the provider says, even beyond the longest delay [AB-retry.19]', async () => {
    const limited = () => Object.assign(new Error('no'), { status: 429, headers: { 'retry-after': '3600' } });
    const jobId = await stage.act(fail(limited), { category: 'planning' });
    const read = () => stage.millrace.get(jobId);
    await until('it waits', read, (each) => each?.state === 'retrying');
    const job = await read();
    expect((job?.scheduledFor?.getTime() ?? 0) - (job?.updatedAt.getTime() ?? 0)).toBeGreaterThanOrEqual(3_600_000);
  });
});

describe('a governed job that fails permanently', () => {
  const permanent: Handler = () => Promise.reject(new PermanentError('the file is broken'));
  const retry = async (jobId: string) => {
    await stage.millrace.retry(jobId);
    return stage.end(jobId);
  };

  it('is failed, and poison when it fails again after a manual retry [AB-dead.02] [AB-def.05]', async () => {
    const jobId = await stage.act(permanent, { category: 'import_export' });
    expect((await stage.end(jobId)).state).toBe('failed');
    expect((await retry(jobId)).state).toBe('dead_letter');
    expect(await stage.path(jobId)).toEqual(expect.arrayContaining(['running>failed:permanent_failure', 'running>dead_letter:poison']));
    expect((await retry(jobId)).state).toBe('dead_letter');
  });

  it('is poison even if other failures come in between', async () => {
    const errors = [new PermanentError('broken'), new TemporaryError('busy'), new PermanentError('still broken')];
    const jobId = await stage.act(() => Promise.reject(errors.shift()), { category: 'import_export' });
    await stage.end(jobId);
    expect((await retry(jobId)).state).toBe('dead_letter');
    expect((await stage.path(jobId)).at(-1)).toBe('running>dead_letter:poison');
  });

  it('is failed if the failure before the retry was another kind', async () => {
    const errors = [new TemporaryError('busy'), new PermanentError('broken')];
    const jobId = await stage.act(() => Promise.reject(errors.shift()), { category: 'import_export', maxAttempts: 1 });
    expect((await stage.end(jobId)).state).toBe('dead_letter');
    expect((await retry(jobId)).state).toBe('failed');
  });

  it('is failed every time without a category', async () => {
    const jobId = await stage.act(permanent);
    await stage.end(jobId);
    expect([(await retry(jobId)).state, (await retry(jobId)).state]).toEqual(['failed', 'failed']);
  });

  it('is poison after as many failures as the operator says', async () => {
    const millrace = await stage.open({ categories: { maintenance: { poisonAfter: 3 } } });
    millrace.register({ type: 'thrice', handler: permanent });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'thrice', category: 'maintenance', payload: {} });
    const states = [(await millrace.waitFor(jobId)).state];
    for (let times = 0; times < 2; times++) {
      await millrace.retry(jobId);
      states.push((await millrace.waitFor(jobId)).state);
    }
    expect(states).toEqual(['failed', 'failed', 'dead_letter']);
    expect((await pathOf(millrace, jobId)).at(-1)).toBe('running>dead_letter:poison');
  });
});

describe('the org of a job', () => {
  it('is checked again before the job runs: no job of a deleted org does [AB-sec.03]', async () => {
    const org = await stage.ledger.newOrg();
    const millrace = await stage.open({ org });
    let runs = 0;
    millrace.register({ type: 'counted', handler: () => ++runs, backoff: AT_ONCE });
    const admin = stage.ledger.db.api;
    const { jobId } = await millrace.submit({ type: 'counted', payload: {} });
    await admin.query('UPDATE millrace.orgs SET deleting_at = now() WHERE id = $1', [org]);
    await millrace.start();
    expect((await millrace.waitFor(jobId)).lastFailure).toMatchObject({ category: 'PERMANENT', code: 'ORG_DELETED' });
    expect(runs).toBe(0);
  });

  it('must exist [AB-sec.03]', async () => {
    const org = randomUUID();
    const millrace = await stage.open({ org });
    millrace.register({ type: 'orphan', handler: () => 'ran' });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'orphan', payload: {} });
    const job = await millrace.waitFor(jobId);
    expect(job.lastFailure).toMatchObject({ code: 'ORG_NOT_FOUND', message: expect.stringContaining(org) });
  });

  it('that is deleted while workers run stops its jobs, and no others [AB-sec.03]', async () => {
    const org = await stage.ledger.newOrg();
    const millrace = await stage.open({ org });
    millrace.register({ type: 'leaving', handler: () => 'ran' });
    await millrace.start();
    const run = async () => (await millrace.waitFor((await millrace.submit({ type: 'leaving', payload: {} })).jobId)).state;
    expect(await run()).toBe('completed');
    await stage.ledger.db.api.query('UPDATE millrace.orgs SET deleting_at = now() WHERE id = $1', [org]);
    await until('its jobs are refused', run, (state) => state === 'failed');
    expect(await outcomeOf(() => 'ran', {})).toBe('ran');
  });
});

describe('a notification', () => {
  it('that two transactions send is delivered once [AB-cat.04] [AB-idem.01]', async () => {
    const at = new Date(Date.now() + 3_600_000);
    const send = () => stage.millrace.submit({ type: 'act', category: 'notification', payload: MAIL, scheduledAt: at });
    const sent = await Promise.all([send(), send(), send()]);
    expect(new Set(sent.map(({ jobId }) => jobId)).size).toBe(1);
    expect(sent.map(({ status }) => status).sort()).toEqual(['ACCEPTED', 'DUPLICATE', 'DUPLICATE']);
  });
});

describe('a category in SQL', () => {
  it('is refused, because the function does not check governed jobs', async () => {
    const client = await stage.connect();
    for (const category of ['planning', 'reports'] as const) {
      const refused = await submitBySql(client, { type: 't', payload: {}, category: category as 'planning' });
      expect(refused).toMatchObject({ sqlState: 'MR001', issues: [{ field: 'category', code: 'NOT_SUPPORTED' }] });
      expect((refused as { message: string }).message).toContain('through the library or the HTTP API');
    }
  });
});
