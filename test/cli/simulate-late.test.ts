import { expect, it } from 'vitest';
import type { Answer } from '../../src/simulator/api.ts';
import { DRIVERS } from '../../src/simulator/drivers.ts';
import type { PlannedJob } from '../../src/simulator/plan.ts';
import type { Accepted } from '../../src/simulator/wire.ts';
import type { World } from '../../src/simulator/world.ts';

const PLAN: PlannedJob = { no: 0, kind: 'DUPLICATE_SUBMIT_SAME_KEY', type: 'EXECUTE', client: 0, key: 'k', executionInMs: -1 };
const TURN = { intendedMs: 0, onAccepted: () => undefined };
const TOO_LATE = { status: 400, body: { code: 'RFA_JOB_VALIDATION_FAILED', errors: [{ field: 'execution_at' }] } };

/** A server that answers with these responses, one after the other, and the requests that it got. */
function worldThatAnswers(...answers: object[]): { world: World; sent: { key: string; due: string }[] } {
  const sent: { key: string; due: string }[] = [];
  const world = {
    api: {
      submit: (_apiKey: string, body: { idempotency_key: string; execution_at: string }) => {
        sent.push({ key: body.idempotency_key, due: body.execution_at });
        return Promise.resolve(answers.shift() as unknown as Answer<Accepted>);
      },
    },
    clients: [{ apiKey: 'x' }],
    stats: { accepted: () => undefined, finished: () => undefined },
    watch: { final: () => Promise.resolve(null) },
  };
  return { world: world as unknown as World, sent };
}

const accepted = (jobId: string) => ({ status: 202, body: { job_id: jobId } });

it('sends a job again if its due time passed on the way, and then its repetition with the same due time', async () => {
  const { world, sent } = worldThatAnswers(TOO_LATE, accepted('one'), accepted('one'));
  const seen = await DRIVERS.same_key(world, PLAN, TURN);
  expect(seen.refusal).toBeNull();
  expect(seen.jobs).toHaveLength(1);
  expect(sent.map(({ key }) => key)).toEqual(['k', 'k', 'k']);
  expect(sent[2]?.due).toBe(sent[1]?.due);
});

it('gives the second job of two keys a new due time if the first one has passed', async () => {
  const { world, sent } = worldThatAnswers(accepted('one'), TOO_LATE, accepted('two'));
  const seen = await DRIVERS.other_key(world, { ...PLAN, kind: 'DUPLICATE_SUBMIT_DIFFERENT_KEY' }, TURN);
  expect(seen.refusal).toBeNull();
  expect(seen.jobs.map(({ jobId }) => jobId)).toEqual(['one', 'two']);
  expect(sent.map(({ key }) => key)).toEqual(['k', 'k-other', 'k-other']);
});

it('reports the repetition of a key that is refused although its job exists', async () => {
  const { world } = worldThatAnswers(accepted('one'), TOO_LATE);
  const seen = await DRIVERS.same_key(world, PLAN, TURN);
  expect(seen.refusal).toEqual({ status: 400, code: 'RFA_JOB_VALIDATION_FAILED' });
});
