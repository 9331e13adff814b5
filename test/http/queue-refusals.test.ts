import { describe, expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue({ type: 'custom', handler: () => null, backoff: () => 1_000 });
const valid = { type: 'email', payload: {} };

type Detail = { field: string; code: string; message: string };

/** Code and field of what is wrong, `field:code`. */
async function complaints(submission: unknown): Promise<string[]> {
  const caller = await queue.caller();
  const { status, body } = await caller.post('/jobs', submission);
  if (status !== 400) return [String(status)];
  return body.details.map(({ field, code }: Detail) => `${field}:${code}`);
}

describe('a submission is refused', () => {
  it.each([
    ['no type [GA-1.02]', { payload: {} }, 'type:REQUIRED'],
    ['no payload [GA-1.03]', { type: 'email' }, 'payload:REQUIRED'],
    ['a list as payload [GA-1.03]', { ...valid, payload: [1] }, 'payload:INVALID_TYPE'],
    ['text as payload [GA-1.03]', { ...valid, payload: 'x' }, 'payload:INVALID_TYPE'],
    ['bytes that are no base64 [GA-1.03]', { ...valid, payload: { $bytes: '*' } }, 'payload.$bytes:INVALID_BASE64'],
    ['a payload over 1 MB', { ...valid, payload: { text: 'x'.repeat(1_048_576) } }, 'payload:PAYLOAD_TOO_LARGE'],
    ['a priority in lower case [GA-1.04]', { ...valid, priority: 'high' }, 'priority:INVALID_VALUE'],
    ['a negative delay [GA-1.05]', { ...valid, delay: -1 }, 'delay:INVALID_DURATION'],
    ['a time without offset [GA-1.06]', { ...valid, scheduled_at: '2024-01-15T10:30:00' }, 'scheduled_at:INVALID_TIMESTAMP'],
    ['a time between blanks [GA-1.06]', { ...valid, scheduled_at: ' 2030-01-15T10:30:00Z ' }, 'scheduled_at:INVALID_TIMESTAMP'],
    ['months as timeout [GA-1.07]', { ...valid, timeout: 'P1M' }, 'timeout:INVALID_DURATION'],
    ['no attempts [GA-1.09]', { ...valid, max_attempts: 0 }, 'max_attempts:OUT_OF_RANGE'],
    ['101 attempts [GA-1.09]', { ...valid, max_attempts: 101 }, 'max_attempts:OUT_OF_RANGE'],
    ['half an attempt [GA-1.08]', { ...valid, max_attempts: 1.5 }, 'max_attempts:OUT_OF_RANGE'],
    ['an unknown strategy [GA-1.17]', { ...valid, backoff: { strategy: 'RANDOM' } }, 'backoff.strategy:INVALID_VALUE'],
    ['a strategy nobody registered', { ...valid, backoff: { strategy: 'CUSTOM' } }, 'backoff.strategy:CUSTOM_BACKOFF_UNKNOWN'],
    ['a first delay that is none [GA-1.18]', { ...valid, backoff: { initial_delay: 'soon' } }, 'backoff.initial_delay:INVALID_DURATION'],
    ['a longest delay that is none [GA-1.19]', { ...valid, backoff: { max_delay: true } }, 'backoff.max_delay:INVALID_DURATION'],
    ['a multiplier in words [GA-1.20]', { ...valid, backoff: { multiplier: 'two' } }, 'backoff.multiplier:INVALID_TYPE'],
    ['an empty key [GA-1.11]', { ...valid, idempotency_key: '' }, 'idempotency_key:TOO_SHORT'],
    ['a number as correlation [GA-1.12]', { ...valid, correlation_id: 7 }, 'correlation_id:INVALID_TYPE'],
    ['tags that are no strings [GA-1.13]', { ...valid, tags: { a: 1 } }, 'tags.a:INVALID_TYPE'],
    ['51 tags', { ...valid, tags: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`t${n}`, ''])) }, 'tags:TOO_MANY'],
    ['a dependency that is no id [GA-1.14]', { ...valid, depends_on: ['x'] }, 'depends_on[0]:INVALID_ID'],
    [
      'a dependency nobody has [GA-1.14]',
      { ...valid, depends_on: ['3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11'] },
      'depends_on:DEPENDENCY_NOT_FOUND',
    ],
    ['FAN_IN on the wire [GA-1.15]', { ...valid, dependency_type: 'FAN_IN' }, 'dependency_type:INVALID_VALUE'],
    ['a callback that is no address [GA-1.16]', { ...valid, callback_url: 'ftp://x' }, 'callback_url:INVALID_URL'],
    ['an id of its own', { ...valid, job_id: 'mine' }, 'job_id:READ_ONLY_MEMBER'],
  ])('with %s', async (_what, submission, complaint) => {
    expect(await complaints(submission)).toEqual([complaint]);
  });

  it('with delay and scheduled_at together, in the names of the wire [GA-1.05] [GA-1.06]', async () => {
    const caller = await queue.caller();
    const { body } = await caller.post('/jobs', { ...valid, delay: 5, scheduled_at: '2030-01-01T00:00:00Z' });
    const both = body.details.find(({ code }: Detail) => code === 'CONFLICTING_MEMBERS');
    expect(both).toMatchObject({ field: 'delay', message: expect.stringContaining('scheduled_at') });
  });

  it('whole: every wrong member is named with a code and a sentence [GA-1.28..30] [GA-6.09] [GA-6.11..13] [GA-6.15]', async () => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', { type: '', max_attempts: 0, priority: 'SOON' });
    expect(status).toBe(400);
    expect(body.code).toBe('INVALID_REQUEST');
    expect(body.details.map(({ field }: Detail) => field).sort()).toEqual(['max_attempts', 'payload', 'priority', 'type']);
    for (const detail of body.details) {
      expect(detail.code).toMatch(/^[A-Z_]+$/);
      expect(detail.message).toContain(detail.field);
    }
  });

  it.each([
    ['prioriti', 'priority'],
    ['scheduledAt', 'scheduled_at'],
    ['idempotencyKey', 'idempotency_key'],
    ['depend_on', 'depends_on'],
  ])('with the unknown member %s, and told of %s', async (member, meant) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/jobs', { ...valid, [member]: 'x' });
    expect(status).toBe(400);
    expect(body.details).toEqual([{ field: member, code: 'UNKNOWN_MEMBER', message: expect.stringContaining(`did you mean ${meant}?`) }]);
  });

  it('with a member of its backoff in the spelling of the library', async () => {
    expect(await complaints({ ...valid, backoff: { initialDelay: 1 } })).toEqual(['backoff.initialDelay:UNKNOWN_MEMBER']);
  });

  it.each([
    ['a list', []],
    ['text', 'job'],
    ['null', null],
    ['a number', 7],
  ])('as %s', async (_what, body) => {
    const caller = await queue.caller();
    expect((await caller.post('/jobs', body)).status).toBe(400);
  });
});

describe('a submission is accepted', () => {
  it.each([['P1DT2H'], ['PT0.5S'], [300], ['90s']])('with the duration %s, in either form [GA-6.02] [GA-6.03]', async (delay) => {
    expect(await complaints({ ...valid, delay })).toEqual(['202']);
  });

  it('with both forms of a duration meaning the same [GA-6.03]', async () => {
    const caller = await queue.caller();
    const submission = { ...valid, idempotency_key: 'same' };
    const first = await caller.post('/jobs', { ...submission, delay: 'PT5M' });
    const again = await caller.post('/jobs', { ...submission, delay: 300 });
    expect(again.body).toMatchObject({ status: 'DUPLICATE', job_id: first.body.job_id });
  });

  it('with 1 and with 100 attempts, and CUSTOM where a function is registered [GA-1.09] [GA-1.17]', async () => {
    expect(await complaints({ ...valid, max_attempts: 1 })).toEqual(['202']);
    expect(await complaints({ ...valid, max_attempts: 100 })).toEqual(['202']);
    expect(await complaints({ type: 'custom', payload: {}, backoff: { strategy: 'CUSTOM' } })).toEqual(['202']);
  });

  it('with null for a member, which equals leaving it out', async () => {
    const caller = await queue.caller();
    const first = await caller.post('/jobs', { ...valid, idempotency_key: 'k' });
    const again = await caller.post('/jobs', {
      ...valid,
      idempotency_key: 'k',
      tags: null,
      delay: null,
      backoff: null,
      org_id: null,
    });
    expect([first.status, again.status]).toEqual([202, 200]);
  });
});

describe('permission', () => {
  it('is needed for the priority CRITICAL and the queue q:critical [GA-6.19]', async () => {
    const caller = await queue.caller();
    const plain = await caller.with('jobs:write');
    const critical = await caller.with('jobs:write', 'queue:critical');
    for (const member of [{ priority: 'CRITICAL' }, { queue: 'q:critical' }]) {
      const refused = await plain.post('/jobs', { ...valid, ...member });
      expect(refused.status).toBe(403);
      expect(refused.body.code).toBe('FORBIDDEN');
      const { body } = await plain.post('/jobs/batch', { jobs: [{ ...valid, ...member }] });
      expect(body.results[0].error.code).toBe('FORBIDDEN');
      expect((await critical.post('/jobs', { ...valid, ...member })).status).toBe(202);
    }
  });

  it('ends at the org of the key: org_id may only repeat it [GA-6.19]', async () => {
    const caller = await queue.caller();
    const other = await queue.caller();
    expect((await caller.post('/jobs', { ...valid, org_id: caller.orgId })).status).toBe(202);
    expect((await caller.post('/jobs', { ...valid, org_id: other.orgId })).status).toBe(403);
    const { body } = await caller.post('/jobs/batch', { jobs: [{ ...valid, org_id: other.orgId }] });
    expect(body.results[0].error.code).toBe('FORBIDDEN');
  });
});
