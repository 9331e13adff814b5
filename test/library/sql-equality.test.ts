/** What `millrace.submit` writes is what the library writes: rows, tokens, history, keys and policies. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Submission } from '../../src/core/submission.ts';
import type { Millrace } from '../../src/index.ts';
import { DEFAULT_ORG_ID } from '../../src/ledger/access/orgs.ts';
import { newProject } from '../ledger/new-project.ts';
import { useBench } from './fixture.ts';
import { submitBySql, writtenFor } from './sql-submission.ts';

const bench = useBench();
const RUNS = Number(process.env.MODEL_RUNS ?? 150);
const PROJECT = randomUUID();
const dependencies: string[] = [];

beforeAll(async () => {
  // Its registrations stay in the ledger. Nothing runs afterwards, so every token stays where a submission puts it.
  const worker = await bench.open({ queues: ['idle'], defaults: { timeoutMs: 3_600_000, retentionMs: 1_000 }, maxPayloadBytes: 3_000 });
  const handler = () => null;
  worker.register({ type: 'tuned', handler, timeout: '50m', maxAttempts: 7, lease: '2m', backoff: { strategy: 'LINEAR', jitter: false } });
  worker.register({ type: 'limited', handler, limit: { key: 'c:{payload.customer.id}', concurrency: 2, rate: 3, per: '1m' } });
  worker.register({ type: 'custom', handler, backoff: () => 10 });
  await worker.queues.configure('ruled', { limit: { key: 'queue', concurrency: 1 } });
  await worker.start();
  await worker.close();
  const millrace = await bench.open();
  for (const priority of ['HIGH', 'BULK'] as const) {
    const { jobId } = await millrace.submit({ type: 'first', payload: {}, priority });
    dependencies.push(jobId);
  }
  const { jobId } = await millrace.submit({ type: 'second', payload: {}, dependsOn: [dependencies[0] as string] });
  dependencies.push(jobId);
});

// Characters of every kind that PostgreSQL can store, above and below the surrogates.
const CHARACTERS = ['a', 'Z', '"', '\\', '/', '\n', '\u0001', '\u007f', 'é', '漢', '\ud7ff', '\ue000', '\uffff', '😀', '\u{10ffff}', ' '];
const text = (max: number, characters = CHARACTERS) => fc.string({ unit: fc.constantFrom(...characters), maxLength: max });
// JSON.parse of Node 26.10 (V8 14.6) may read the key "\n" as "\\" after it has read an object with the key "\\".
const memberName = text(
  5,
  CHARACTERS.filter((character) => character !== '\\'),
);
const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.constantFrom(1e21, 1e23, 1e-6, 1e-7, 5e-324, 2 ** 53, 0.1, -0, 1.7976931348623157e308, 4.35e-7),
);
const json = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, number, text(6), fc.boolean(), fc.constant(null), tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 4 }),
  object: fc.dictionary(memberName, tie('value'), { maxKeys: 5 }),
}));
const ms = (least: number, most: number) => fc.integer({ min: least, max: most }).map((count) => `${count}ms`);
const some = <T>(arbitrary: fc.Arbitrary<T>, freq = 2) => fc.option(arbitrary, { nil: undefined, freq });

const submission: fc.Arbitrary<Submission> = fc.record({
  type: fc.constantFrom('plain', 'tuned', 'limited', 'custom'),
  payload: fc.oneof(
    json.object.map((object) => ({ ...(object as object), customer: { id: 'ada' } })),
    fc.uint8Array({ maxLength: 90 }).map((bytes) => ({ $bytes: Buffer.from(bytes).toString('base64') })),
    fc.constantFrom({ $bytes: 'AB==' }, { $bytes: 'AAB=' }),
    number.map((id) => ({ customer: { id } })),
  ),
  priority: some(fc.constantFrom('CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK')),
  queue: some(fc.constantFrom('q:default', 'q:critical', 'q:exports', 'ruled')),
  delay: some(ms(0, 60_000), 1),
  scheduledAt: some(
    fc.constantFrom('2020-02-29T23:59:59.999Z', '2026-01-01T00:00:00+05:30', new Date(Date.now() + 3_600_000).toISOString()),
    1,
  ),
  timeout: some(ms(1, 1_800_000), 1),
  lifetime: some(ms(120_000_000, 900_000_000), 1),
  maxAttempts: some(fc.integer({ min: 1, max: 100 }), 1),
  backoff: some(
    fc.record({
      strategy: some(fc.constantFrom('CONSTANT', 'LINEAR', 'EXPONENTIAL')),
      initialDelay: some(ms(0, 1_000)),
      maxDelay: some(ms(1_000, 100_000)),
      multiplier: some(fc.constantFrom(1, 1.5, 2.25, 1000)),
      jitter: fc.boolean(),
    }),
    1,
  ),
  correlationId: some(
    text(20).filter((value) => value !== ''),
    1,
  ),
  tags: some(
    fc.dictionary(
      memberName.filter((value) => value !== ''),
      text(8),
      { maxKeys: 4 },
    ),
    1,
  ),
  dependsOn: some(fc.array(fc.nat(2), { maxLength: 4 }), 1) as fc.Arbitrary<never>,
  dependencyType: some(fc.constantFrom('AFTER', 'AFTER_ANY', 'CHAIN'), 1),
  callbackUrl: some(fc.constantFrom('https://example.com/hook', 'http://user.example:8080/a?b=c#d'), 1),
  limit: some(
    fc.constantFrom(
      { key: 'mail', concurrency: 3 },
      { key: 'mail', rate: 5, per: '1s' },
      { key: 'ä', concurrency: 1, rate: 2, per: '24h' },
    ),
    1,
  ),
  projectId: some(fc.constant(PROJECT), 1),
  traceparent: some(fc.constant('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'), 1),
}) as fc.Arbitrary<Submission>;

/** Makes a drawn submission valid: bytes have no customer, a job has a delay or a time, and dependencies are known when the property runs. */
function complete({ dependsOn, ...rest }: Submission): Submission {
  const ids = dependsOn?.map((index) => dependencies[Number(index)] as string);
  const type = '$bytes' in (rest.payload as object) && rest.type === 'limited' ? 'plain' : rest.type;
  const given = { ...rest, type, ...(ids === undefined ? {} : { dependsOn: ids }) };
  return given.scheduledAt === undefined ? given : { ...given, delay: undefined };
}

describe('a submission by SQL and by the library', () => {
  beforeAll(() => newProject(bench.ledger.db, DEFAULT_ORG_ID, PROJECT));

  it('writes the same rows, and each door recognises the key of the other', { timeout: 240_000 }, async () => {
    const millrace = await bench.open({ defaults: { timeoutMs: 3_600_000, retentionMs: 1_000 } });
    const plain = await bench.open();
    const client = await bench.connect();
    const property = fc.asyncProperty(submission, async (drawn) => {
      const given = complete(drawn);
      const [own, other] = [randomUUID(), randomUUID()];
      // The defaults of a process that only submits are its own. Those of the SQL function come with the type.
      const door: Millrace = given.type === 'plain' ? plain : millrace;
      const byLibrary = await door.submit({ ...given, idempotencyKey: own });
      const bySql = await submitBySql(client, { ...given, idempotencyKey: other });
      expect(bySql).toEqual({ id: expect.any(String) });
      const { id } = bySql as { id: string };
      expect(await writtenFor(client, id, given)).toEqual(await writtenFor(client, byLibrary.jobId, given));
      expect(await submitBySql(client, { ...given, idempotencyKey: own })).toEqual({ id: byLibrary.jobId });
      expect(await door.submit({ ...given, idempotencyKey: other })).toMatchObject({ status: 'DUPLICATE', existingJobId: id });
      expect(await submitBySql(client, { ...given, payload: { other: 1, customer: { id: 1 } }, idempotencyKey: other })).toMatchObject({
        sqlState: 'MR002',
        code: 'DUPLICATE',
      });
    });
    await fc.assert(property, { numRuns: RUNS });
    expect(await bench.violations()).toEqual([]);
  });

  it('is equal without a key too, so the statement for jobs of one kind is compared as well', async () => {
    const millrace = await bench.open();
    const client = await bench.connect();
    for (const given of [
      { type: 'plain', payload: { a: [1, { b: null }] } },
      { type: 'plain', payload: {}, tags: { a: '' } },
      { type: 'plain', payload: {}, projectId: PROJECT },
      { type: 'plain', payload: {}, delay: 0 },
      { type: 'plain', payload: new Uint8Array([0, 255, 7]) },
    ]) {
      const bySql = (await submitBySql(client, given)) as { id: string };
      expect(await writtenFor(client, bySql.id)).toEqual(await writtenFor(client, (await millrace.submit(given)).jobId));
    }
  });

  it('uses the policy and the payload size of the process that registered the type', async () => {
    const client = await bench.connect();
    const { id } = (await submitBySql(client, { type: 'tuned', payload: {} })) as { id: string };
    const { rows } = await client.query(
      'SELECT p.body FROM millrace.jobs j JOIN millrace.policies p ON p.id = j.policy_id WHERE j.id = $1',
      [id],
    );
    expect(rows[0].body).toMatchObject({ timeoutMs: 3_000_000, retentionMs: 1_000, maxAttempts: 7, leaseMs: 120_000 });
    const large = { text: 'x'.repeat(3_000) };
    expect(await submitBySql(client, { type: 'tuned', payload: large })).toMatchObject({
      issues: [{ field: 'payload', code: 'PAYLOAD_TOO_LARGE' }],
    });
    expect(await submitBySql(client, { type: 'plain', payload: large })).toEqual({ id: expect.any(String) });
  });
});

describe('the parts of the function', () => {
  it('default_policy is the profile of the library', async () => {
    const { rows } = await (await bench.connect()).query('SELECT millrace.default_policy() AS policy');
    expect(rows[0].policy).toEqual(PROFILES.gopherqueue);
  });

  it('canonical_json and policy_hash write JSON as the library does', async () => {
    const client = await bench.connect();
    const property = fc.asyncProperty(fc.array(json.value, { minLength: 20, maxLength: 60 }), async (values) => {
      const { rows } = await client.query(
        'SELECT millrace.canonical_json(v) AS text FROM unnest($1::jsonb[]) WITH ORDINALITY AS u(v, n) ORDER BY n',
        [values.map((value) => JSON.stringify(value))],
      );
      expect(rows.map((row) => row.text)).toEqual(values.map((value) => canonicalJson(value)));
    });
    await fc.assert(property, { numRuns: RUNS });
    const policies = [
      PROFILES.gopherqueue,
      PROFILES.forgerun,
      { ...PROFILES.gopherqueue, backoff: { ...PROFILES.gopherqueue.backoff, multiplier: 1.1e-7 } },
    ];
    const { rows } = await client.query(
      'SELECT bool_and(millrace.policy_hash(p) = millrace.json_fingerprint(p)) AS same FROM unnest($1::jsonb[]) p',
      [policies.map((policy) => JSON.stringify(policy))],
    );
    expect(rows[0].same).toBe(true);
  });

  it('json_number prints every double as JavaScript does, whatever extra_float_digits is', async () => {
    const client = await bench.connect();
    await client.query('SET extra_float_digits = -5');
    const bits = new DataView(new ArrayBuffer(8));
    const ofBits = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((pattern) => {
      bits.setBigUint64(0, pattern);
      return bits.getFloat64(0);
    });
    const powers = Array.from({ length: 2_098 }, (_, index) => 2 ** (index - 1_074));
    const drawn = fc.sample(fc.oneof(ofBits, number), RUNS * 40);
    const doubles = [...powers, ...drawn].filter((value) => Number.isFinite(value));
    const { rows } = await client.query(
      'SELECT millrace.json_number(v) AS text FROM unnest($1::numeric[]) WITH ORDINALITY AS u(v, n) ORDER BY n',
      [doubles.map((value) => JSON.stringify(value))],
    );
    expect(rows.map((row) => row.text)).toEqual(doubles.map((value) => JSON.stringify(value)));
  });
});
