import { createHmac } from 'node:crypto';

/** Standard Webhooks: what is signed is the id, the time and the bytes of the body, so that none can be exchanged. */
export type SignatureParams = {
  readonly id: string;
  readonly timestampSeconds: number;
  readonly body: Uint8Array;
  /** Each gives one signature: receivers that know an older or a newer secret are both served while one is replaced. */
  readonly secrets: readonly Uint8Array[];
};

/** How long a secret made here is. */
export const WEBHOOK_SECRET_BYTES = 24;

const MIN_BYTES = 24;
const MAX_BYTES = 64;
const PREFIX = 'whsec_';
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export function formatSecret(bytes: Uint8Array): string {
  return PREFIX + Buffer.from(bytes).toString('base64');
}

/** Null for what is no secret: another prefix, not base64, or fewer than 24 or more than 64 bytes. */
export function parseSecret(text: string): Uint8Array | null {
  if (!text.startsWith(PREFIX)) return null;
  const encoded = text.slice(PREFIX.length);
  if (!BASE64.test(encoded)) return null;
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.length < MIN_BYTES || bytes.length > MAX_BYTES) return null;
  return bytes.toString('base64') === encoded ? new Uint8Array(bytes) : null;
}

/** The header `webhook-signature`: `v1,<base64>`, one for each secret. */
export function signatureHeader({ id, timestampSeconds, body, secrets }: SignatureParams): string {
  return secrets.map((secret) => `v1,${sign({ id, timestampSeconds, body, secret })}`).join(' ');
}

type OneSignature = Omit<SignatureParams, 'secrets'> & { secret: Uint8Array };

function sign({ id, timestampSeconds, body, secret }: OneSignature): string {
  return createHmac('sha256', secret).update(`${id}.${timestampSeconds}.`).update(body).digest('base64');
}
