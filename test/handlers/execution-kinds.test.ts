import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { generateDefinition } from '../../src/core/execution/definition.ts';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { executionRegistration } from '../../src/handlers/execution.ts';
import type { Caller } from '../../src/services/execution/context.ts';
import type { ExecutionView } from '../../src/services/execution/read-execution.ts';
import { findModuleReferences } from '../architecture/module-references.ts';
import { lex } from '../architecture/source-lexer.ts';
import { useSimulation } from './execution-fixture.ts';

// The scale leaves the longest kinds room to the timeout on a busy machine, and all of them run side by side.
const simulation = useSimulation({ timeScale: 0.02, isIdle: true });

/** Kinds that end as they should when nobody does anything to them: milliseconds, kilobytes, pieces of output. */
const LEFT_ALONE = [
  ['FR-06.19', 'SUCCESS_FAST', 1_000, 4, 1],
  ['FR-06.20', 'SUCCESS_NORMAL', 10_000, 16, 1],
  ['FR-06.21', 'SUCCESS_SLOW', 90_000, 32, 1],
  ['FR-06.25', 'RUNS_LONG', 110_000, 32, 1],
  ['FR-06.27', 'CPU_BURST', 8_000, 4, 1],
  ['FR-06.28', 'MEMORY_SPIKE', 12_000, 64, 1],
  ['FR-06.29', 'IO_HEAVY', 15_000, 32, 1],
  ['FR-06.30', 'MANY_SMALL_OUTPUTS', 9_000, 16, 16],
  ['FR-06.31', 'LARGE_OUTPUT', 9_000, 256, 1],
  ['FR-06.38', 'WEBHOOK_SUCCESS', 2_000, 4, 1],
  ['FR-06.39', 'WEBHOOK_TIMEOUT', 2_000, 4, 1],
  ['FR-06.40', 'WEBHOOK_5XX', 2_000, 4, 1],
  ['FR-06.41', 'WEBHOOK_RETRIES_EXHAUSTED', 2_000, 4, 1],
  ['FR-06.42', 'WEBHOOK_SLOW_RECEIVER', 2_000, 4, 1],
  ['FR-06.46', 'PAYLOAD_SMALL', 2_000, 1, 1],
  ['FR-06.47', 'PAYLOAD_MEDIUM', 2_000, 16, 1],
  ['FR-06.48', 'PAYLOAD_LARGE', 2_000, 256, 1],
] as const satisfies readonly (readonly [string, WorkKind, number, number, number])[];

describe('a kind that succeeds', () => {
  let client: Caller;
  const ids = new Map<WorkKind, string>();
  beforeAll(async () => {
    client = await simulation.newClient();
    for (const [, workKind] of LEFT_ALONE) ids.set(workKind, await simulation.submit(client, { workKind }));
    await simulation.work();
  });

  it.each(LEFT_ALONE)('[%s] %s takes %i ms and makes %i KB in %i piece(s)', async (_, workKind, ms, kb, pieces) => {
    const jobId = ids.get(workKind) as string;
    const job = await simulation.ended(client, jobId);
    expect(job).toMatchObject({ state: 'SUCCEEDED', outcome: 'SUCCESS', failure: null, attempt: 1 });
    expect(job.definition).toMatchObject({
      ...{ work_kind: workKind, duration_ms: ms, should_fail: false, payload_size: kb * 1_024 },
      expected_outcome: 'SUCCEEDED',
    });
    expect(await simulation.resultOf(client, jobId)).toMatchObject({ bytes: kb * 1_024, outputs: pieces });
  });

  it('works for its duration times the scale', async () => {
    for (const workKind of ['SUCCESS_FAST', 'CPU_BURST', 'IO_HEAVY'] as const) {
      const job = await simulation.ended(client, ids.get(workKind) as string);
      expect(tookMs(job)).toBeGreaterThanOrEqual((job.definition?.duration_ms as number) * 0.02 - 1);
    }
  });

  it('reports progress between the parts of long work, and none after the last', async () => {
    const ends = { SUCCESS_NORMAL: [25, 50, 75], RUNS_LONG: [10, 20, 30, 40, 50, 60, 70, 80, 90], SUCCESS_FAST: [] };
    for (const [workKind, percents] of Object.entries(ends)) {
      const jobId = ids.get(workKind as WorkKind) as string;
      await simulation.ended(client, jobId);
      expect(simulation.progress.filter((report) => report.jobId === jobId).map(({ percent }) => percent)).toEqual(percents);
    }
  });

  it('logs the kind of work that it begins', async () => {
    const jobId = ids.get('CPU_BURST') as string;
    const { definition } = await simulation.ended(client, jobId);
    const started = simulation.logs.filter((log) => log.jobId === jobId);
    expect(started).toEqual([
      {
        ...{ jobId, message: 'execution.started' },
        fields: {
          ...{ scenario: 'CPU_BURST', duration_ms: 8_000, expected_outcome: 'SUCCEEDED', seed: definition?.seed },
          execution_at: null,
          traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/),
        },
      },
    ]);
  });
});

describe('an attempt whose work began long after it was claimed', () => {
  it('still ends before its deadline where the kind fits: what went by counts [FR-06.25]', async () => {
    const { handler } = executionRegistration({ timeScale: 1, activeJobs: 1 });
    const definition = generateDefinition({
      ...{ type: 'EXECUTE', workKind: 'RUNS_LONG', seedMs: 1, failureProbability: 0, maxRuntimeMs: 120_000 },
    });
    const nowMs = Date.now();
    const work = {
      ...{ attempt: 1, startedAt: new Date(nowMs - 119_000), deadline: new Date(nowMs + 1_000) },
      ...{ signal: new AbortController().signal, reportProgress: async () => {}, log: () => {} },
    };
    expect(await handler(work, definition)).toMatchObject({ bytes: 32_768 });
  });
});

describe('a kind about repeated submissions', () => {
  it('DUPLICATE_SUBMIT_SAME_KEY gives one job of 2 000 ms and 4 KB that succeeds [FR-06.36]', async () => {
    const client = await simulation.newClient();
    const request = { workKind: 'DUPLICATE_SUBMIT_SAME_KEY', idempotencyKey: 'once' } as const;
    const [first, second] = [await simulation.submit(client, request), await simulation.submit(client, request)];
    expect(second).toBe(first);
    const job = await simulation.ended(client, first);
    expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, definition: TWO_SECONDS });
  });

  it('DUPLICATE_SUBMIT_DIFFERENT_KEY gives two jobs of 2 000 ms and 4 KB that succeed [FR-06.37]', async () => {
    const client = await simulation.newClient();
    const workKind = 'DUPLICATE_SUBMIT_DIFFERENT_KEY';
    const first = await simulation.submit(client, { workKind, idempotencyKey: 'one' });
    const second = await simulation.submit(client, { workKind, idempotencyKey: 'two' });
    expect(second).not.toBe(first);
    for (const jobId of [first, second]) {
      const job = await simulation.ended(client, jobId);
      expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, definition: TWO_SECONDS });
    }
  });
});

describe('simulated work', () => {
  it('is waiting and made-up bytes: its code reaches no network, file, process or other package [FR-03.01]', () => {
    const packages = ['execution.ts', 'execution-output.ts'].flatMap((name) => {
      const text = readFileSync(new URL(`../../src/handlers/${name}`, import.meta.url), 'utf8');
      return findModuleReferences(lex(text)).map(({ specifier }) => specifier);
    });
    const outside = packages.filter((name) => name === null || !/^(?:\.\/execution-|\.\.\/core\/)/.test(name));
    expect(outside).toEqual(['node:timers/promises', 'node:crypto']);
  });

  it('is the only work that a job of any type and kind can do [FR-03.01]', async () => {
    const client = await simulation.newClient();
    for (const type of ['EXECUTE', 'EMIT_EVENT'] as const) {
      const id = await simulation.submit(client, { type });
      expect(await simulation.ledger.rowOf({ orgId: client.clientId, id })).toMatchObject({
        job_type: 'forgerun.simulated',
      });
    }
  });
});

const TWO_SECONDS = { duration_ms: 2_000, should_fail: false, payload_size: 4_096 };

function tookMs({ startedAt, finishedAt }: ExecutionView): number {
  return (finishedAt as Date).getTime() - (startedAt as Date).getTime();
}
