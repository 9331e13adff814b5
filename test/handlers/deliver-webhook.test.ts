import { describe, expect, it } from 'vitest';
import type { AttemptOutcome, LoadedDelivery } from '../../src/core/delivery-policy.ts';
import { PermanentError, TemporaryError } from '../../src/core/handler-errors.ts';
import { type DeliveryRequest, deliverRegistration } from '../../src/handlers/deliver-webhook.ts';
import { type DeliveryAnswer, judgeAnswer } from '../../src/handlers/delivery-verdict.ts';

const ID = '6f1f7a2e-6a53-4a60-8d5e-0c1e6e1c3f0a';
const NOW = Date.UTC(2026, 0, 1, 12);
const SETTINGS = { timeoutMs: 10_000, maxRetries: 5, backoff: { initialMs: 1_000, maxMs: 300_000 }, verifies: true };
const READY: LoadedDelivery = {
  ...{ kind: 'ready', deliveryId: ID, messageId: 'msg_1', url: 'https://example.com/', body: Buffer.from('{}') },
  ...{
    secrets: [Buffer.alloc(24, 1)],
    createdAtMs: NOW,
    nowMs: NOW,
    webhookId: ID,
    isCallback: false,
    isVerified: true,
    traceparent: null,
  },
};

const answered = (status: number, headers: Record<string, string> = {}, body = ''): DeliveryAnswer => ({
  ...{ kind: 'answered', status, headers, durationMs: 5 },
  body: Buffer.from(body),
});

type Circumstances = { loaded?: LoadedDelivery; signal?: AbortSignal; isTriedAgain?: boolean };

async function deliver(answer: DeliveryAnswer, circumstances: Circumstances = {}) {
  const { loaded = READY, signal = new AbortController().signal, isTriedAgain = false } = circumstances;
  const requests: DeliveryRequest[] = [];
  const finished: AttemptOutcome[] = [];
  const registration = deliverRegistration({
    ...SETTINGS,
    fetch: async (request) => {
      requests.push(request);
      return answer;
    },
    desk: {
      load: async () => loaded,
      finish: async (_: { signal: AbortSignal }, __, outcome) => {
        finished.push(outcome);
        return { isTriedAgain };
      },
      noteVerified: async () => {},
    },
  });
  const error = await registration.handler({ signal }, { delivery_id: ID }).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return { requests, finished, error };
}

describe('a delivery', () => {
  it('is one signed POST that follows no redirect', async () => {
    const { requests, finished, error } = await deliver(answered(204));
    expect(error).toBe(null);
    expect(finished).toMatchObject([{ verdict: 'delivered', status: 204 }]);
    expect(requests).toMatchObject([{ url: 'https://example.com/', method: 'POST', redirects: 0, timeoutMs: 10_000 }]);
    expect(requests[0]?.headers).toMatchObject({
      ...{ 'webhook-id': 'msg_1', 'webhook-timestamp': String(NOW / 1_000), 'content-type': 'application/json' },
      'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
    });
  });

  it('that is tried again is done with this job; the last attempt ends its job as failed', async () => {
    const busy = answered(503, { 'retry-after': '30' });
    const again = await deliver(busy, { isTriedAgain: true });
    expect([again.error, again.finished]).toMatchObject([null, [{ verdict: 'retry', retryAfterMs: 30_000 }]]);
    const last = await deliver(busy);
    expect(last.error).toBeInstanceOf(TemporaryError);
    expect(last.error).toMatchObject({ code: 'HTTP_503' });
    expect((await deliver(answered(410))).error).toBeInstanceOf(PermanentError);
    expect((await deliver({ kind: 'refused', code: 'ADDRESS', durationMs: 0 })).error).toMatchObject({
      code: 'REFUSED_ADDRESS',
    });
  });

  it('sends nothing when there is nothing to deliver any more', async () => {
    expect(await deliver(answered(200), { loaded: { kind: 'gone' } })).toEqual({
      requests: [],
      finished: [],
      error: null,
    });
  });

  it('writes nothing when the attempt was stopped', async () => {
    const controller = new AbortController();
    controller.abort(new Error('stopped'));
    const stopped = { kind: 'failed', code: 'ABORTED', durationMs: 0 } as const;
    const { finished, error } = await deliver(stopped, { signal: controller.signal });
    expect(finished).toEqual([]);
    expect(error).toMatchObject({ message: 'stopped' });
  });

  it('is refused without a delivery to name', async () => {
    const { handler } = deliverRegistration({
      ...SETTINGS,
      fetch: async () => answered(200),
      desk: { load: async () => READY, finish: async () => ({ isTriedAgain: false }), noteVerified: async () => {} },
    });
    for (const payload of [null, {}, { delivery_id: 7 }, 'x']) {
      const error = await Promise.resolve()
        .then(() => handler({ signal: new AbortController().signal }, payload))
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'DELIVERY_MISSING' });
    }
  });
});

describe('the verdict', () => {
  const RETRIED = [100, 199, 300, 301, 302, 304, 307, 400, 401, 404, 409, 429, 500, 502, 503, 599];

  it('with status 2xx counts as delivered', () => {
    for (const status of [200, 201, 204, 299]) expect(judgeAnswer(answered(status), NOW).verdict).toBe('delivered');
  });

  it('of any other status is to try again, redirects included; 410 ends it', () => {
    for (const status of RETRIED)
      expect(judgeAnswer(answered(status), NOW)).toMatchObject({ verdict: 'retry', errorCode: `HTTP_${status}` });
    expect(judgeAnswer(answered(410), NOW)).toMatchObject({ verdict: 'gone', status: 410 });
  });

  it('of a call that failed is to try again', () => {
    for (const code of ['DNS', 'CONNECT', 'TLS', 'TIMEOUT', 'RESET', 'PROTOCOL']) {
      const judged = judgeAnswer({ kind: 'failed', code, durationMs: 9 }, NOW);
      expect(judged).toMatchObject({ verdict: 'retry', errorCode: code, status: null, durationMs: 9 });
    }
  });
});

describe('Retry-After', () => {
  it.each([
    ['0', 0],
    [' 120 ', 120_000],
    ['999999999', 3_600_000],
    ['Thu, 01 Jan 2026 12:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 11:00:00 GMT', 0],
    ['soon', null],
    ['-5', null],
    ['1.5', null],
    ['', null],
    [undefined, null],
  ])('%s', (text, expected) => {
    const headers: Record<string, string> = text === undefined ? {} : { 'retry-after': text };
    const answer = { kind: 'answered', status: 503, headers, body: Buffer.alloc(0), durationMs: 0 } as const;
    expect(judgeAnswer(answer, NOW).retryAfterMs).toBe(expected);
  });
});

describe('the part of an answer that is stored', () => {
  const excerpt = (text: string) =>
    judgeAnswer({ kind: 'answered', status: 500, headers: {}, body: Buffer.from(text), durationMs: 0 }, NOW).answer;

  it('is its beginning, without control characters', () => {
    expect(excerpt('')).toBe(null);
    expect(excerpt('a\u0000b\r\nc')).toBe('a b c');
    expect(excerpt('x'.repeat(5_000))).toHaveLength(1_024);
    expect(Buffer.byteLength(excerpt('\u00e9'.repeat(2_000)) ?? '')).toBeLessThanOrEqual(1_027);
  });

  it.each([
    ['{"token":"abc","why":"x"}', /abc/],
    ['{"nested":{"api_key": "abc\\"def"},"n":1}', /abc|def/],
    ['{"secrets":["abc","def"]}', /abc|def/],
    ['{"password":"abc', /abc/],
    ['Authorization: Bearer abc', /abc/],
    ['user=me&password=abc&x=1', /abc/],
    ['{"message":"{\\"token\\":\\"abc\\"}"}', /abc/],
    ['{"secret":{"a":{"b":1},"value":"hunter2"},"n":1}', /hunter2/],
    ['{"tokens":[["t1"],["t2leak"]],"n":1}', /t1|t2leak/],
    ['{"secret":{"a":"}","value":"hunter2"', /hunter2/],
    ['bad signature for whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', /AAAA/],
    ['no such key: mr_0123456789ab_abcdefghijk', /0123|abcdef/],
    ['got "Bearer eyJhbGciOi.leak" instead', /eyJ|leak/],
    ['sent eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln', /eyJ/],
  ])('hides secrets: %s', (text, secret) => {
    expect(excerpt(text)).not.toMatch(secret);
    expect(excerpt(text)).toContain('[masked]');
  });

  it('keeps the text that follows a masked secret', () => {
    expect(excerpt('{"secret":{"a":{"b":1}},"why":"busy"}')).toBe('{"secret":[masked],"why":"busy"}');
    expect(excerpt('the bearer of this is mr_x')).toBe('the bearer of this is mr_x');
  });
});
