import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { formatSecret, signatureHeader, WEBHOOK_SECRET_BYTES } from '../../src/core/webhook-signature.ts';

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });

describe('a webhook secret', () => {
  it('is written and read without loss', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 24, maxLength: 64 }), (secret) => {
        const [prefix, encoded = ''] = formatSecret(secret).split('_');
        expect(prefix).toBe('whsec');
        expect(new Uint8Array(Buffer.from(encoded, 'base64'))).toEqual(secret);
      }),
    );
    expect(formatSecret(new Uint8Array(WEBHOOK_SECRET_BYTES))).toBe(`whsec_${'A'.repeat(32)}`);
  });
});

describe('the signature of a webhook', () => {
  it('is accepted by the standardwebhooks package, whatever the body and the secret', () => {
    fc.assert(
      fc.property(fc.json(), bytes(24), fc.uuid(), (body, secret, id) => {
        const at = new Date();
        const timestampSeconds = Math.floor(at.getTime() / 1_000);
        const header = signatureHeader({ id, timestampSeconds, body: Buffer.from(body), secrets: [secret] });
        expect(header).toBe(new Webhook(formatSecret(secret)).sign(id, at, body));
        const headers = { 'webhook-id': id, 'webhook-timestamp': `${timestampSeconds}`, 'webhook-signature': header };
        expect(() => new Webhook(formatSecret(secret)).verify(body, headers)).not.toThrow();
      }),
    );
  });

  it('has one part for each secret, in their order', () => {
    const [old, young] = [new Uint8Array(24).fill(1), new Uint8Array(24).fill(2)];
    const message = { id: 'msg_1', timestampSeconds: 1_700_000_000, body: Buffer.from('{}') };
    const each = [young, old].map((secret) => signatureHeader({ ...message, secrets: [secret] }));
    expect(signatureHeader({ ...message, secrets: [young, old] })).toBe(each.join(' '));
  });
});
