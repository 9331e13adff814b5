import { describe, expect, it } from 'vitest';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'echo', handler: (_context, payload) => payload });

const newType = () => `nobody-${randomId()}`;

describe('a unique job over HTTP', () => {
  it('is accepted with 202, and a second one is skipped with 200 and the first job', async () => {
    const caller = await queue.caller();
    const job = { type: newType(), payload: {}, unique: { key: 'k' } };
    const first = await caller.post('/jobs', job);
    expect(first).toMatchObject({ status: 202, body: { status: 'ACCEPTED' } });
    expect(first.body).not.toHaveProperty('replaced_job_id');
    const { job_id } = first.body;
    expect(await caller.post('/jobs', job)).toMatchObject({ status: 200, body: { status: 'SKIPPED', job_id, existing_job_id: job_id } });
  });

  it('replaces a job that has not started, or its payload', async () => {
    const caller = await queue.caller();
    const type = newType();
    const of = (on_conflict: string) => ({ type, payload: {}, unique: { key: 'k', until: 'started', on_conflict } });
    const first = await caller.post('/jobs', of('replace'));
    const second = await caller.post('/jobs', of('replace'));
    expect(second).toMatchObject({ status: 202, body: { status: 'ACCEPTED', replaced_job_id: first.body.job_id } });
    const { job_id } = second.body;
    expect(await caller.post('/jobs', of('replace_payload'))).toMatchObject({
      status: 200,
      body: { status: 'UPDATED', existing_job_id: job_id },
    });
    const { body } = await caller.get(`/jobs/${first.body.job_id}?include_history=true`);
    expect(body.history.at(-1)).toMatchObject({ from_state: 'SCHEDULED', to_state: 'CANCELLED', reason: 'replaced' });
  });

  it('in a batch has its own result', async () => {
    const caller = await queue.caller();
    const type = newType();
    const jobs = [1, 2].map((n) => ({ type, payload: { n }, unique: { key: 'k' } }));
    const debounced = [1, 2].map((n) => ({ type, payload: { n }, debounce: { key: 'd', delay: 'PT1H', max: 'PT2H' } }));
    const { body } = await caller.post('/jobs/batch', { jobs: [...jobs, ...debounced] });
    expect(body).toMatchObject({ accepted: 4, rejected: 0 });
    expect(body.results.map(({ status }: { status: string }) => status)).toEqual(['ACCEPTED', 'SKIPPED', 'ACCEPTED', 'UPDATED']);
    expect(body.results[3]).toMatchObject({ state: 'DELAYED', existing_job_id: body.results[2].job_id });
  });

  it('of another org is no obstacle', async () => {
    const [one, other] = [await queue.caller(), await queue.caller()];
    const job = { type: newType(), payload: {}, unique: { key: 'k' } };
    const mine = await one.post('/jobs', job);
    const theirs = await other.post('/jobs', job);
    expect([mine.status, theirs.status]).toEqual([202, 202]);
    expect((await other.post('/jobs', job)).body.job_id).toBe(theirs.body.job_id);
  });

  it.each<[object, string, string]>([
    [{ unique: { key: 'k', onConflict: 'skip' } }, 'unique.onConflict', 'did you mean on_conflict'],
    [{ unique: { key: 'k', on_conflict: 'drop' } }, 'unique.on_conflict', 'must be one of'],
    [{ unique: { key: 'k', until: 'finish' } }, 'unique.until', 'did you mean finished'],
    [{ unique: { key: '\u0000' } }, 'unique.key', 'NUL'],
    [{ unique: { key: 'x'.repeat(10_000) } }, 'unique.key', '256'],
    [{ unique: { key: 'k', ['__proto__']: 1 } }, 'unique.__proto__', 'is not an accepted name'],
    [{ debounce: { key: 'k', delay: 'PT5S' }, scheduled_at: '2040-01-01T00:00:00Z' }, 'debounce', 'and scheduled_at cannot be combined'],
  ])('%j is refused', async (more, field, words) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', { type: 'echo', payload: {}, ...more });
    expect(status).toBe(400);
    expect(body.details).toContainEqual(expect.objectContaining({ field, message: expect.stringContaining(words) }));
  });
});
