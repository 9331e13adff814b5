import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ExecutionDefinition,
  type GenerateParams,
  generateDefinition,
  isExecutionPayload,
} from '../../src/core/execution/definition.ts';
import { EXECUTION_TYPES, type ExecutionType, KINDS, WORK_KINDS } from '../../src/core/execution/kinds.ts';

const NOW = Date.UTC(2026, 2, 1, 12);
const MAX_RUNTIME = 120_000;
const KB = 1_024;

const generate = (params: Partial<GenerateParams> = {}): ExecutionDefinition =>
  generateDefinition({ type: 'EXECUTE', seedMs: NOW, failureProbability: 0.5, maxRuntimeMs: MAX_RUNTIME, ...params });

const drawn = (type: ExecutionType, failureProbability: number, count = 4_000): ExecutionDefinition[] =>
  Array.from({ length: count }, (_, index) => generate({ type, failureProbability, seedMs: NOW + index }));

const params = fc.record({
  type: fc.constantFrom(...EXECUTION_TYPES),
  seedMs: fc.integer({ min: 0, max: 8_640_000_000_000 }),
  failureProbability: fc.double({ min: 0, max: 1, noNaN: true }),
});

const always = (check: (given: Partial<GenerateParams>) => void): void =>
  fc.assert(
    fc.property(params, (given) => {
      check(given);
    }),
    { numRuns: 500 },
  );

describe('generating a definition', () => {
  it('needs nothing from the client but the type [FR-06.01] [FR-06.04]', () => {
    for (const type of EXECUTION_TYPES) expect(generate({ type })).toMatchObject({ type, seed: NOW });
  });

  it('gives the same definition for the same time and request, always [FR-06.02]', () => {
    always((given) => expect(generate(given)).toEqual(generate(given)));
    const kinds = new Set(drawn('EXECUTE', 0.5, 200).map(({ work_kind }) => work_kind));
    expect(kinds.size).toBeGreaterThan(10);
  });

  it('lets every bit of the time count', () => {
    const other = drawn('EXECUTE', 0.5, 50).map(({ work_kind }) => work_kind);
    const later = Array.from({ length: 50 }, (_, index) => generate({ seedMs: NOW + index + 2 ** 33 }).work_kind);
    expect(later).not.toEqual(other);
  });

  it('stays inside the bounds whatever it draws [FR-06.03] [FR-06.52] [FR-06.54] [FR-06.59]', () => {
    always((given) => {
      const { duration_ms, payload_size } = generate(given);
      expect(duration_ms).toBeGreaterThanOrEqual(500);
      expect(duration_ms).toBeLessThanOrEqual(120_000);
      expect(payload_size).toBeGreaterThanOrEqual(KB);
      expect(payload_size).toBeLessThanOrEqual(256 * KB);
    });
  });

  it('takes the kind that was named [FR-06.05]', () => {
    for (const workKind of WORK_KINDS) expect(generate({ workKind }).work_kind).toBe(workKind);
  });

  it('chooses a kind of the catalogue where none was named, so every definition has one [FR-06.06] [FR-06.16]', () => {
    always((given) => expect(WORK_KINDS).toContain(generate(given).work_kind));
  });

  it('draws every kind that can be drawn, and no other', () => {
    const never = ['PAYLOAD_INVALID', 'RUNS_OVER_TIMEOUT'];
    for (const type of EXECUTION_TYPES) {
      const expected = WORK_KINDS.filter((kind) => KINDS[kind].types.includes(type) && !never.includes(kind));
      const kinds = new Set(drawn(type, 0.3).map(({ work_kind }) => work_kind));
      expect([...kinds].toSorted()).toEqual(expected.toSorted());
    }
  });

  it.each(WORK_KINDS)('has the numbers of %s from the catalogue [FR-06.07] [FR-06.08] [FR-06.09]', (workKind) => {
    const { durationMs, shouldFail, payloadKb, expected } = KINDS[workKind];
    expect(generate({ workKind })).toMatchObject({
      duration_ms: durationMs === 'over_max_runtime' ? MAX_RUNTIME + 1_000 : durationMs,
      should_fail: shouldFail,
      payload_size: payloadKb * KB,
      expected_outcome: expected,
    });
  });

  it.each([
    ['EXECUTE', 0.2, '[FR-06.53]'],
    ['DEFERRED', 0.7, '[FR-06.60]'],
    ['EMIT_EVENT', 0, ''],
    ['EXECUTE', 1, ''],
  ] as const)('fails %s with the configured probability of %d %s', (type, probability, _id) => {
    const definitions = drawn(type, probability);
    const share = definitions.filter(({ should_fail }) => should_fail).length / definitions.length;
    // Seeds are fixed: these are always the same numbers.
    expect(Math.abs(share - probability)).toBeLessThan(0.03);
    if (probability === 0 || probability === 1) expect(share).toBe(probability);
  });

  it.each([
    ['EXECUTE', '[FR-06.55]'],
    ['DEFERRED', '[FR-06.61]'],
  ] as const)('draws success, failure and slow kinds for %s %s', (type, _id) => {
    const tempers = drawn(type, 0.3, 500).map(({ work_kind }) => KINDS[work_kind].temper);
    expect(new Set(tempers)).toEqual(new Set(['success', 'failure', 'slow']));
  });

  it('says for an instant job what it does, and no time [FR-06.51]', () => {
    const definition = generate({ workKind: 'SUCCESS_FAST' });
    expect(definition).toMatchObject({ duration_ms: 1_000, should_fail: false, payload_size: 4 * KB });
    expect(definition.execution_at).toBeNull();
  });

  it('says for a deferred job what it does, and when [FR-06.57]', () => {
    const executionAt = new Date(NOW + 60_000);
    expect(generate({ type: 'DEFERRED', workKind: 'SCHEDULED_ON_TIME', executionAt })).toMatchObject({
      work_kind: 'SCHEDULED_ON_TIME',
      execution_at: executionAt.toISOString(),
      duration_ms: 2_000,
      should_fail: false,
    });
  });
});

describe('the payload of a job', () => {
  it('is recognised as a whole definition', () => {
    always((given) => expect(isExecutionPayload(generate(given))).toBe(true));
    expect(isExecutionPayload({ ...generate(), traceparent: '00-1-2-01' })).toBe(true);
  });

  it('is not one when a member is missing or wrong', () => {
    const whole = generate();
    for (const member of Object.keys(whole)) {
      const { [member as keyof ExecutionDefinition]: _, ...rest } = whole;
      expect([member, isExecutionPayload(rest)]).toEqual([member, false]);
      expect([member, isExecutionPayload({ ...whole, [member]: {} })]).toEqual([member, false]);
    }
    for (const other of [null, undefined, {}, [], 'text', { ...whole, duration_ms: -1 }]) expect(isExecutionPayload(other)).toBe(false);
  });
});
