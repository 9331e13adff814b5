import { describe, expect, it } from 'vitest';
import { EXECUTION_TYPES, type ExecutionType } from '../../src/core/execution/kinds.ts';
import { readExecutionRequest } from '../../src/services/execution/execution-request.ts';

const LATER = '2030-01-15T10:30:00Z';

const read = (body: unknown, params: { headerKey?: string; allowedTypes?: readonly ExecutionType[] } = {}) =>
  readExecutionRequest(body, { allowedTypes: EXECUTION_TYPES, ...params });

const issuesOf = (body: unknown, params = {}): [string, string[]] => {
  const result = read(body, params);
  return result.ok ? ['ok', []] : [result.kind, result.issues.map(({ field, code }) => `${field} ${code}`)];
};

describe('reading a submission', () => {
  it('takes the type alone, and everything at once', () => {
    expect(read({ type: 'EXECUTE' })).toEqual({
      ok: true,
      request: { type: 'EXECUTE', workKind: null, executionAt: null, callback: null, idempotencyKey: null },
    });
    const all = {
      ...{ type: 'DEFERRED', work_kind: 'SCHEDULED_ON_TIME', execution_at: LATER },
      ...{ callback: 'https://example.com/hook', idempotency_key: 'k1' },
    };
    expect(read(all, { headerKey: 'k2' })).toEqual({
      ok: true,
      request: {
        ...{ type: 'DEFERRED', workKind: 'SCHEDULED_ON_TIME', executionAt: new Date(LATER) },
        ...{ callback: 'https://example.com/hook', idempotencyKey: 'k1' },
      },
    });
  });

  it('takes null for absent, and the key of the header where the body has none', () => {
    const nothing = { work_kind: null, execution_at: null, callback: null, idempotency_key: null };
    expect(read({ type: 'EMIT_EVENT', ...nothing }, { headerKey: 'k2' })).toMatchObject({
      ok: true,
      request: { idempotencyKey: 'k2', executionAt: null },
    });
  });

  it('lets an emitted event have a time or none', () => {
    expect(read({ type: 'EMIT_EVENT', execution_at: LATER })).toMatchObject({ ok: true });
  });

  it.each([
    [null, ['body INVALID_TYPE']],
    ['text', ['body INVALID_TYPE']],
    [[], ['body INVALID_TYPE']],
    [{}, ['type REQUIRED']],
    [{ type: 1 }, ['type INVALID_TYPE']],
    [{ type: 'EXECUTE', callback: {} }, ['callback INVALID_TYPE']],
    [{ type: 'EXECUTE', idempotency_key: 5 }, ['idempotency_key INVALID_TYPE']],
    [{ type: 'DEFERRED' }, ['execution_at REQUIRED']],
  ])('calls %j malformed', (body, issues) => {
    expect(issuesOf(body)).toEqual(['malformed', issues]);
  });

  it.each([
    [{ type: 'RESIZE' }, ['type INVALID_VALUE']],
    [{ type: 'EXECUTE', work_kind: 'SUCCES_FAST' }, ['work_kind INVALID_VALUE']],
    [{ type: 'EXECUTE', work_kind: 'SCHEDULED_ON_TIME' }, ['work_kind NOT_FOR_TYPE']],
    [{ type: 'EXECUTE', work_kind: 'PAYLOAD_INVALID' }, ['work_kind PAYLOAD_INVALID']],
    [{ type: 'EXECUTE', execution_at: LATER }, ['execution_at NOT_ALLOWED']],
    [{ type: 'DEFERRED', execution_at: 'tomorrow' }, ['execution_at INVALID_TIMESTAMP']],
    [{ type: 'DEFERRED', execution_at: '2030-01-15T10:30:00+02:00' }, ['execution_at NOT_UTC']],
    [{ type: 'EXECUTE', callback: 'ftp://example.com' }, ['callback INVALID_URL']],
    [{ type: 'EXECUTE', callback: 'https://' }, ['callback INVALID_URL']],
    [{ type: 'EXECUTE', callback: `https://example.com/${'a'.repeat(2_048)}` }, ['callback TOO_LONG']],
    [{ type: 'EXECUTE', idempotency_key: 'k'.repeat(257) }, ['idempotency_key TOO_LONG']],
    [{ type: 'EXECUTE', idempotency_key: '' }, ['idempotency_key TOO_SHORT']],
    [{ type: 'EXECUTE', job_id: 'x' }, ['job_id READ_ONLY_MEMBER']],
    [{ type: 'EXECUTE', duration_ms: 5 }, ['duration_ms UNKNOWN_MEMBER']],
  ])('calls %j invalid', (body, issues) => {
    expect(issuesOf(body)).toEqual(['invalid', issues]);
  });

  it('takes both ways of writing UTC', () => {
    for (const execution_at of [LATER, '2030-01-15T10:30:00.250+00:00', '2030-01-15t10:30z'])
      expect(issuesOf({ type: 'DEFERRED', execution_at })).toEqual(['ok', []]);
  });

  it('refuses a type that this server was not told to take', () => {
    expect(issuesOf({ type: 'EMIT_EVENT' }, { allowedTypes: ['EXECUTE'] })).toEqual(['invalid', ['type NOT_ALLOWED']]);
  });

  it('names everything that is wrong at once, with what was probably meant', () => {
    const result = read({ type: 'EXECUTE', work_kind: 'SUCCES_FAST', call_back: 'x' });
    expect(result).toMatchObject({ ok: false, kind: 'invalid' });
    const text = JSON.stringify(result);
    expect(text).toContain('did you mean SUCCESS_FAST?');
    expect(text).toContain('did you mean callback?');
  });
});
