import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { type VerifyWebhookParams, verifyWebhook, type WebhookHeaders, WebhookVerificationError } from '../../src/client/index.ts';
import { formatSecret, signatureHeader } from '../../src/core/webhook-signature.ts';

const SECRET = formatSecret(new Uint8Array(24).fill(7));
const OTHER = formatSecret(new Uint8Array(32).fill(9));
const NOW_MS = 1_760_000_000_000;
const ID = 'msg_0123456789abcdef';
const BODY = JSON.stringify({ type: 'job.succeeded', timestamp: '2026-01-01T00:00:00Z', data: { job_id: 'ü' } });

/** As the independent package signs it. */
function headersOf(body: string, { secret = SECRET, atMs = NOW_MS, id = ID } = {}): Record<string, string> {
  const signature = new Webhook(secret).sign(id, new Date(atMs), body);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(atMs / 1_000)),
    'webhook-signature': signature,
  };
}

const verify = (changes: Partial<VerifyWebhookParams> = {}) =>
  verifyWebhook({ body: BODY, headers: headersOf(BODY), secret: SECRET, now: () => NOW_MS, ...changes });

async function refusalOf(changes: Partial<VerifyWebhookParams>): Promise<string> {
  const error = await verify(changes).then(
    () => null,
    (error: unknown) => error,
  );
  if (error instanceof WebhookVerificationError) return error.code;
  throw error ?? new Error('It was accepted.');
}

describe('verifyWebhook', () => {
  it('accepts what the standardwebhooks package signed and answers the event', async () => {
    expect(await verify()).toEqual(JSON.parse(BODY));
    expect(await verify({ body: new TextEncoder().encode(BODY) })).toEqual(JSON.parse(BODY));
  });

  it('accepts every body that was signed, by the package or by the server', async () => {
    const property = fc.asyncProperty(fc.json(), fc.uint8Array({ minLength: 24, maxLength: 64 }), async (body, bytes) => {
      const secret = formatSecret(bytes);
      expect(await verify({ body, secret, headers: headersOf(body, { secret }) })).toEqual(JSON.parse(body));
      const message = { id: ID, timestampSeconds: NOW_MS / 1_000, body: new TextEncoder().encode(body) };
      const signature = signatureHeader({ ...message, secrets: [new Uint8Array(24), bytes] });
      const headers = { ...headersOf(body), 'webhook-signature': signature };
      expect(await verify({ body, secret, headers })).toEqual(JSON.parse(body));
    });
    await fc.assert(property, { numRuns: 50 });
  });

  it('refuses a message of which any byte, the id or the time was changed', async () => {
    const headers = headersOf(BODY);
    expect(await refusalOf({ body: BODY.replace('succeeded', 'Succeeded') })).toBe('NO_MATCH');
    expect(await refusalOf({ body: `${BODY} ` })).toBe('NO_MATCH');
    expect(await refusalOf({ headers: { ...headers, 'webhook-id': `${ID}0` } })).toBe('NO_MATCH');
    const later = String(Number(headers['webhook-timestamp']) + 1);
    expect(await refusalOf({ headers: { ...headers, 'webhook-timestamp': later } })).toBe('NO_MATCH');
    const property = fc.asyncProperty(fc.nat({ max: BODY.length - 1 }), async (at) => {
      const changed = BODY.slice(0, at) + (BODY[at] === 'x' ? 'y' : 'x') + BODY.slice(at + 1);
      expect(await refusalOf({ body: changed })).toBe('NO_MATCH');
    });
    await fc.assert(property, { numRuns: 50 });
  });

  it('refuses a message that is too old or from the future, also to the second', async () => {
    const at = (ms: number) => ({ headers: headersOf(BODY, { atMs: NOW_MS + ms }) });
    expect(await refusalOf(at(-301_000))).toBe('TOO_OLD');
    expect(await refusalOf(at(301_000))).toBe('TOO_NEW');
    await verify(at(-300_000));
    await verify(at(300_000));
    expect(await refusalOf({ ...at(-11_000), toleranceSeconds: 10 })).toBe('TOO_OLD');
  });

  it('reads the time of this machine where none is given', async () => {
    const headers = headersOf(BODY, { atMs: Date.now() });
    expect(await verifyWebhook({ body: BODY, headers, secret: SECRET })).toEqual(JSON.parse(BODY));
    const old = headersOf(BODY, { atMs: Date.now() - 3_600_000 });
    await expect(verifyWebhook({ body: BODY, headers: old, secret: SECRET })).rejects.toMatchObject({
      code: 'TOO_OLD',
    });
  });

  it('accepts either secret while one is replaced, and either signature', async () => {
    await verify({ secret: [OTHER, SECRET] });
    expect(await refusalOf({ secret: [OTHER] })).toBe('NO_MATCH');
    const headers = headersOf(BODY);
    const both = `${headersOf(BODY, { secret: OTHER })['webhook-signature']} ${headers['webhook-signature']}`;
    await verify({ headers: { ...headers, 'webhook-signature': both } });
    await verify({ headers: { ...headers, 'webhook-signature': `v2,AAAA v1a,AAAA ${both}` } });
  });

  it.each([
    ['cut short', (signature: string) => signature.slice(0, -4)],
    ['of one byte', () => 'v1,AA=='],
    ['empty', () => 'v1,'],
    ['not base64', () => 'v1,???'],
    ['of another version', (signature: string) => signature.replace('v1,', 'v2,')],
    ['without a version', (signature: string) => signature.replace('v1,', '')],
  ])('refuses a signature that is %s', async (_, change) => {
    const headers = headersOf(BODY);
    const signature = change(headers['webhook-signature'] ?? '');
    expect(await refusalOf({ headers: { ...headers, 'webhook-signature': signature } })).toBe('NO_MATCH');
  });

  it('takes headers as servers have them, in any case', async () => {
    const headers = headersOf(BODY);
    const named = (name: (text: string) => string) => Object.fromEntries(Object.entries(headers).map(([key, value]) => [name(key), value]));
    const title = (text: string) => text.replaceAll(/\b\w/g, (letter) => letter.toUpperCase());
    const shapes: WebhookHeaders[] = [
      ...[headers, named(title), named((text) => text.toUpperCase())],
      ...[new Headers(headers), Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, [value]]))],
    ];
    for (const shape of shapes) expect(await verify({ headers: shape })).toEqual(JSON.parse(BODY));
  });

  it.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])('needs the header %s, once', async (name) => {
    const { [name]: value = '', ...rest } = headersOf(BODY);
    expect(await refusalOf({ headers: rest })).toBe('MISSING_HEADER');
    expect(await refusalOf({ headers: { ...rest, [name]: '' } })).toBe('MISSING_HEADER');
    expect(await refusalOf({ headers: { ...rest, [name]: [value, value] } })).toBe('MISSING_HEADER');
  });

  it('refuses a time or a body that cannot be read', async () => {
    for (const timestamp of ['soon', '-1', '1e9', '1760000000.5', '9'.repeat(13)]) {
      expect(await refusalOf({ headers: { ...headersOf(BODY), 'webhook-timestamp': timestamp } })).toBe('MALFORMED');
    }
    expect(await refusalOf({ body: 'not json', headers: headersOf('not json') })).toBe('MALFORMED');
  });

  it.each(['', 'whsec_', 'whsec_!!!!', 'whsec_AAAA', formatSecret(new Uint8Array(65))])(
    'names the secret %j as what is wrong, without showing it',
    async (secret) => {
      expect(await refusalOf({ secret })).toBe('BAD_SECRET');
      if (secret.length > 6) await expect(verify({ secret })).rejects.not.toThrow(secret);
    },
  );

  it('needs a secret', async () => {
    expect(await refusalOf({ secret: [] })).toBe('BAD_SECRET');
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])('refuses a tolerance of %d, which would say nothing', async (seconds) => {
    await expect(verify({ toleranceSeconds: seconds })).rejects.toThrow(RangeError);
  });

  it('takes headers of any class that has a get', async () => {
    class OtherHeaders {
      readonly #values = headersOf(BODY);
      get(name: string): string | null {
        return this.#values[name] ?? null;
      }
    }
    expect(await verify({ headers: new OtherHeaders() })).toEqual(JSON.parse(BODY));
  });
});
