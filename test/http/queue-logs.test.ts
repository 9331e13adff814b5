import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Query, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const chatty = (lines: number) => (context: { log(level: 'info' | 'error', message: string, fields?: object): void }) => {
  for (let n = 1; n <= lines; n++) context.log(n % 2 === 0 ? 'error' : 'info', `line ${n}`, { n });
};

describe('the log lines of a job', () => {
  it('are read in pages, oldest first, and by level [GA-5.25]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(chatty(5));
    await caller.reached(jobId, 'COMPLETED');
    const first = await caller.get(`/jobs/${jobId}/logs`, { limit: '2' });
    expect(first.body).toEqual({
      job_id: jobId,
      lines: [1, 2].map((n) => ({
        ...{ level: n === 2 ? 'error' : 'info', message: `line ${n}`, fields: { n }, attempt: 1 },
        timestamp: expect.stringMatching(/Z$/),
      })),
      next_cursor: expect.any(String),
    });
    const rest = await caller.get(`/jobs/${jobId}/logs`, { cursor: first.body.next_cursor });
    expect(rest.body.lines.map(({ message }: { message: string }) => message)).toEqual(['line 3', 'line 4', 'line 5']);
    expect(rest.body.next_cursor).toBeNull();
    const errors = await caller.get(`/jobs/${jobId}/logs`, { level: ['error'] });
    expect(errors.body.lines.map(({ message }: { message: string }) => message)).toEqual(['line 2', 'line 4']);
  });

  it('of a job without lines are none, and of a job that does not exist are refused', async () => {
    const caller = await queue.caller();
    const jobId = await caller.submit({ type: 'quiet' });
    expect((await caller.get(`/jobs/${jobId}/logs`)).body).toEqual({ job_id: jobId, lines: [], next_cursor: null });
    for (const id of [randomUUID(), '__proto__', '..%2f..', 'x'.repeat(90)])
      expect((await caller.get(`/jobs/${id}/logs`)).status).toBe(404);
  });

  it('are hidden from another org and from a key of another project, and a cursor of one job is refused for another', async () => {
    const [org, stranger] = [await queue.caller(), await queue.caller()];
    const [own, other] = [randomUUID(), randomUUID()];
    const jobId = await (await org.inProject(own)).act(chatty(3));
    await org.reached(jobId, 'COMPLETED');
    const seen = await (await org.inProject(own)).get(`/jobs/${jobId}/logs`, { limit: '1' });
    expect(seen.body.lines).toHaveLength(1);
    expect((await (await org.inProject(other)).get(`/jobs/${jobId}/logs`)).status).toBe(404);
    expect((await stranger.get(`/jobs/${jobId}/logs`, { cursor: seen.body.next_cursor })).status).toBe(400);
    expect((await stranger.get(`/jobs/${jobId}/logs`)).status).toBe(404);
    const second = await org.submit({ type: 'quiet' });
    const wrong: Query[] = [{ cursor: seen.body.next_cursor }, { cursor: 'x' }, { limit: '0' }, { level: 'loud' }, { levels: 'info' }];
    for (const query of wrong) {
      expect((await org.get(`/jobs/${second}/logs`, query)).status).toBe(400);
    }
  });
});
