import { createHmac } from 'node:crypto';

/** Standard Webhooks signs the message id, the time and the bytes of the body. */
export type SignatureParams = {
  readonly id: string;
  readonly timestampSeconds: number;
  readonly body: Uint8Array;
  /** Each secret adds one signature, so that receivers with the old or the new secret can verify during a rotation. */
  readonly secrets: readonly Uint8Array[];
};

export const WEBHOOK_SECRET_BYTES = 24;

const PREFIX = 'whsec_';

export function formatSecret(bytes: Uint8Array): string {
  return PREFIX + Buffer.from(bytes).toString('base64');
}

/** The header `webhook-signature`: one `v1,<base64>` for each secret. */
export function signatureHeader({ id, timestampSeconds, body, secrets }: SignatureParams): string {
  const sign = (secret: Uint8Array): string =>
    createHmac('sha256', secret).update(`${id}.${timestampSeconds}.`).update(body).digest('base64');
  return secrets.map((secret) => `v1,${sign(secret)}`).join(' ');
}
