/** What the library refuses, `millrace.submit` refuses with the same codes for the same members, and nothing else. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { AppError, ERRORS } from '../../src/core/errors.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Submission } from '../../src/core/submission.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { useBench } from './fixture.ts';
import { HOSTILE_VALUES } from './hostile-values.ts';
import { sqlName, submitBySql } from './sql-submission.ts';

const bench = useBench();
const RUNS = Number(process.env.MODEL_RUNS ?? 150);
let engine: Engine;
let first: string;
let ofOtherOrg: string;

beforeAll(async () => {
  engine = createEngine({ database: bench.ledger.db, profile: PROFILES.gopherqueue });
  await engine.open();
  const worker = await bench.open({ queues: ['idle'] });
  worker.register({ type: 'limited', handler: () => null, limit: { key: '{payload.a.b}-{payload.c}', concurrency: 1 } });
  worker.register({ type: 'custom', handler: () => null, backoff: () => 10 });
  await worker.start();
  await worker.close();
  await engine.catalogue.refresh();
  first = await submitted({ type: 'first', payload: {} });
  ofOtherOrg = (await submitJob(engine, { orgId: await bench.ledger.newOrg(), submission: { type: 'first', payload: {} }, actor: null }))
    .jobId;
  return () => engine.close(0);
});

const submitted = async (submission: Submission): Promise<string> =>
  (await submitJob(engine, { orgId: DEFAULT_ORG_ID, submission, actor: null, terms: { knownQueuesOnly: true } })).jobId;

/** `field:code` of each issue, or `accepted`. */
async function byLibrary(submission: Submission): Promise<string[]> {
  try {
    await submitted(submission);
    return ['accepted'];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return error.details.map(({ field, code }) => `${sqlName(field)}:${code}`).sort();
  }
}

async function bySql(submission: Submission): Promise<string[]> {
  const result = await submitBySql(bench.ledger.db.api, submission);
  if ('id' in result) return ['accepted'];
  for (const { field, message } of result.issues) expect(message.length).toBeGreaterThan(field.length);
  return result.issues.map(({ field, code }) => `${field}:${code}`).sort();
}

describe('a hostile submission is refused alike', () => {
  const cases = Object.entries(HOSTILE_VALUES).flatMap(([member, values]) =>
    values.map((value, index) => [`${member} ${index}: ${String(JSON.stringify(value)).slice(0, 60)}`, member, value] as const),
  );

  it.each(cases)('%s', async (_, member, value) => {
    const given = { type: 't', payload: { a: { b: 1 }, c: 'x' }, [member]: value } as Submission;
    expect(await bySql(given)).toEqual(await byLibrary(given));
  });

  it('in every member at the same time', { timeout: 120_000 }, async () => {
    const drawn = fc.record(
      Object.fromEntries(
        Object.entries(HOSTILE_VALUES).map(([member, values]) => [
          member,
          fc.constantFrom(...values.filter((value) => JSON.stringify(value ?? null).length < 10_000)),
        ]),
      ),
      { requiredKeys: ['type', 'payload'] },
    ) as fc.Arbitrary<unknown> as fc.Arbitrary<Submission>;
    // The library looks for the project only if all else is right.
    const isLookedFor = (issue: string, _: number, all: string[]) => all.length === 1 || issue !== 'project_id:UNKNOWN_PROJECT';
    const property = fc.asyncProperty(drawn, async (given) => {
      expect((await bySql(given)).filter(isLookedFor)).toEqual(await byLibrary(given));
    });
    await fc.assert(property, { numRuns: RUNS });
  });

  it('dependencies: unknown ones, those of another org, and too many', async () => {
    const many = Array.from({ length: 1_001 }, () => randomUUID());
    for (const dependsOn of [
      [first],
      [],
      [randomUUID()],
      [ofOtherOrg],
      [first, ofOtherOrg],
      many,
      ['00000000-0000-0000-0000-000000000000'],
    ]) {
      const given = { type: 't', payload: {}, dependsOn };
      expect(await bySql(given)).toEqual(await byLibrary(given));
    }
    expect(await bySql({ type: 't', payload: {}, dependsOn: [null as never] })).toEqual(['depends_on[0]:INVALID_ID']);
  });

  it('a chain of dependencies that is too deep', async () => {
    await bench.ledger.db.api.query('UPDATE millrace.jobs SET depth = 100 WHERE id = $1', [await submitted({ type: 'deep', payload: {} })]);
    const { rows } = await bench.ledger.db.api.query(`SELECT id FROM millrace.jobs WHERE job_type = 'deep'`);
    const given = { type: 't', payload: {}, dependsOn: [rows[0].id] };
    expect(await bySql(given)).toEqual(['depends_on:DEPENDENCY_DEPTH']);
    expect(await byLibrary(given)).toEqual(['depends_on:DEPENDENCY_DEPTH']);
  });
});

describe('what only SQL can say', () => {
  const refused = async (list: string) => {
    const error = await bench.ledger.db.api.query(`SELECT millrace.submit(${list})`).then(
      () => null,
      (caught) => caught as { code: string; message: string; detail: string; hint: string },
    );
    return error;
  };

  it.each([
    [
      `'t', '{"id": 9007199254740993}'`,
      'NOT_SERIALIZABLE',
      'payload contains the number 9007199254740993, which JavaScript would change; pass it as a string',
    ],
    [`'t', '{"a": [1e400]}'`, 'NOT_SERIALIZABLE', 'pass it as a string'],
    [`'t', (repeat('{"a":', 65) || '1' || repeat('}', 65))::jsonb`, 'TOO_DEEP', 'must not be nested more than 64 levels deep'],
    [`'t', '{}', delay => '300000 years'`, 'INVALID_DURATION', 'delay is not a duration'],
    [`'t', '{}', scheduled_at => 'infinity'`, 'INVALID_TIMESTAMP', 'must be a time in the years 1 to 9999'],
    [`'t', '{}', scheduled_at => '0044-03-15 BC'`, 'INVALID_TIMESTAMP', 'must be a time in the years 1 to 9999'],
    [`'t', '{}', scheduled_at => now(), delay => '1 s'`, 'CONFLICTING_MEMBERS', 'delay and scheduled_at cannot be combined'],
    [`'t', '{}', backoff_multiplier => 'NaN'`, 'OUT_OF_RANGE', 'must be between 1 and 1000'],
    [`'t', '{}', org => 'nobody'`, 'UNKNOWN_ORG', 'org must be the name or the id of an org'],
    [`'t', '{}', org => ''`, 'UNKNOWN_ORG', 'org must be the name or the id of an org'],
    [`'t', '{}', org => '00000000-0000-4000-8000-000000000001'`, 'UNKNOWN_ORG', 'org must be the name or the id of an org'],
    [`'t', '{}', callback_url => 'http:example.com'`, 'INVALID_URL', 'must be an absolute http or https URL'],
  ])('%s', async (list, code, advice) => {
    const error = await refused(list);
    expect(error?.message).toContain(advice);
    expect(error).toMatchObject({ code: 'MR001', message: expect.stringMatching(/^INVALID_REQUEST: The submission is not valid: /) });
    expect(JSON.parse(error?.detail ?? '')).toMatchObject({ code: 'INVALID_REQUEST', details: [{ code }] });
  });

  it.each([
    `'t', '{"a": 0.1, "b": 3.3333333333333333333, "c": 1e23, "d": 9007199254740992, "e": "9007199254740993"}'`,
    `'t', (repeat('{"a":', 64) || '1' || repeat('}', 64))::jsonb`,
    `'t', '{"a": "{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{[{["}'`,
    `'t', '{}', org => '00000000-0000-4000-8000-000000000000'`,
    `'t', '{}', org => NULL, queue => NULL, tags => NULL, delay => NULL`,
  ])('accepted: %s', async (list) => {
    expect(await refused(list)).toBeNull();
  });

  it('a NUL character cannot be sent at all', async () => {
    await expect(submitBySql(bench.ledger.db.api, { type: 'a\0b', payload: {} })).rejects.toMatchObject({ code: '22021' });
    await expect(submitBySql(bench.ledger.db.api, { type: 't', payload: { a: '\0' } })).rejects.toMatchObject({ code: '22P05' });
  });

  it('the error says what to do, and lists at most 20 problems', async () => {
    const tags = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`t${index}`, 1]));
    const result = await submitBySql(bench.ledger.db.api, { type: 't', payload: {}, tags: tags as never });
    expect(result).toMatchObject({
      hint: 'Correct the parameters named in the detail and call millrace.submit again.',
      message: expect.stringContaining('(and 29 more)'),
    });
    expect((result as { issues: unknown[] }).issues).toHaveLength(20);
    const keyed = { type: 't', payload: { a: 1 }, idempotencyKey: randomUUID() };
    await submitBySql(bench.ledger.db.api, keyed);
    const other = await submitBySql(bench.ledger.db.api, { ...keyed, payload: { a: 2 } });
    expect(other).toMatchObject({ sqlState: 'MR002', code: 'DUPLICATE', hint: ERRORS.DUPLICATE.remedy });
    await bench.ledger.db.api.query('DELETE FROM millrace.jobs WHERE idempotency_key = $1', [keyed.idempotencyKey]);
    expect(await submitBySql(bench.ledger.db.api, keyed)).toMatchObject({ sqlState: 'MR003', code: 'NOT_FOUND' });
  });
});
