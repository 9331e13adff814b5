import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Produce, produceOutputs } from '../../src/handlers/execution-output.ts';
import { QUICK, useSimulation } from './execution-fixture.ts';

/** What the work produces is the test's to say. */
let produce: Produce = produceOutputs;
const simulation = useSimulation({ ...QUICK, produce: (params) => produce(params) });

describe('the output of a job', () => {
  it('is made of its seed: the same seed gives the same bytes, another one others', () => {
    const digestOf = (seed: number) => {
      const hash = createHash('sha256');
      for (const output of produceOutputs({ seed, bytes: 10_000, outputs: 3 })) hash.update(output);
      return hash.digest('hex');
    };
    expect(digestOf(1_700_000_000_000)).toBe(digestOf(1_700_000_000_000));
    expect(digestOf(1_700_000_000_001)).not.toBe(digestOf(1_700_000_000_000));
    expect(digestOf(0)).not.toBe(digestOf(1));
  });

  it('has all its bytes in as many pieces as its kind says, none of them larger by more than a byte', () => {
    const sizes = [...produceOutputs({ seed: 7, bytes: 16_385, outputs: 16 })].map(({ byteLength }) => byteLength);
    expect(sizes).toEqual([1_025, ...Array(15).fill(1_024)]);
  });

  it('looks like chance', () => {
    const [output] = produceOutputs({ seed: 7, bytes: 4_096, outputs: 1 });
    expect(new Set(output).size).toBe(256);
  });

  it('is kept as its size, its pieces and its digest; the bytes are not stored', async () => {
    produce = produceOutputs;
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { workKind: 'MANY_SMALL_OUTPUTS' });
    const { definition } = await simulation.ended(client, jobId);
    const hash = createHash('sha256');
    const seed = definition?.seed as number;
    for (const output of produceOutputs({ seed, bytes: 16_384, outputs: 16 })) hash.update(output);
    const result = { bytes: 16_384, outputs: 16, digest: `sha256:${hash.digest('hex')}` };
    expect(await simulation.resultOf(client, jobId)).toEqual(result);
  });

  it('of EMIT_EVENT says that an event was emitted', async () => {
    produce = produceOutputs;
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { type: 'EMIT_EVENT' });
    expect(await simulation.ended(client, jobId)).toMatchObject({ state: 'SUCCEEDED', type: 'EMIT_EVENT' });
    expect(await simulation.resultOf(client, jobId)).toMatchObject({ bytes: 4_096, emitted: true });
  });
});

describe('an output that is not what the definition promised', () => {
  const INVALID: Record<string, Produce> = {
    'a byte short': (params) => produceOutputs({ ...params, bytes: params.bytes - 1 }),
    'a byte too long': (params) => produceOutputs({ ...params, bytes: params.bytes + 1 }),
    'in too many pieces': (params) => produceOutputs({ ...params, outputs: params.outputs + 1 }),
  };
  const MISSING: Record<string, Produce> = {
    'not there at all': () => [],
    *'broken off'(params) {
      yield* produceOutputs({ ...params, bytes: 100 });
      throw new Error('the work stopped in the middle');
    },
  };

  it.each(Object.entries(INVALID))('%s: the job is FAILED with a code of its own [FR-14.43]', async (_, invalid) => {
    expect(await failureOf(invalid)).toMatchObject({ code: 'OUTPUT_INVALID', retryable: false });
  });

  it.each(Object.entries(MISSING))('%s: the job is FAILED with a code of its own, and has a report [FR-14.42]', async (_, missing) => {
    expect(await failureOf(missing)).toMatchObject({ code: 'OUTPUT_MISSING', retryable: false });
  });

  /** Ends a job with what `made` produces; its report must say the same as the job. */
  async function failureOf(made: Produce) {
    produce = made;
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client);
    const { state, failure } = await simulation.ended(client, jobId);
    expect(state).toBe('FAILED');
    expect(await simulation.resultOf(client, jobId)).toBeNull();
    const report = await simulation.report(client, jobId);
    expect(report).toMatchObject({ outcome: 'FAILED', failure });
    expect(report.events.at(-1)).toMatchObject({ eventName: 'job.failed', reason: 'failure' });
    return failure;
  }
});
