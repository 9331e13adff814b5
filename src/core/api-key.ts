import { hash, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** What a key may do. */
export const API_KEY_SCOPES = [
  'jobs:write',
  'jobs:read',
  'jobs:cancel',
  'failures:read',
  'deadletter:manage',
  'queue:critical',
  'keys:renew',
  'audit:read',
  'operator',
] as const;

export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/** The scopes of a key that was created without any: submit, read and cancel jobs of its org. */
export const DEFAULT_SCOPES: readonly ApiKeyScope[] = ['jobs:write', 'jobs:read', 'jobs:cancel', 'failures:read'];

export const DEFAULT_KEY_LIFETIME_MS = 90 * 86_400_000;

const PREFIX = 'mr';
const ID_BYTES = 9;
/** Random bytes that the caller supplies for a new secret. */
export const API_KEY_SECRET_BYTES = 32;
/** Random bytes that the caller supplies for a new key. */
export const API_KEY_RANDOM_BYTES = ID_BYTES + API_KEY_SECRET_BYTES;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_LENGTH = 13;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const KEY = new RegExp(`^${PREFIX}_([0-9A-Za-z]{${ID_LENGTH}})_([0-9A-Za-z]{${SECRET_LENGTH}})[0-9A-Za-z]{${CHECKSUM_LENGTH}}$`);
const KEY_ID = new RegExp(`^[0-9A-Za-z]{${ID_LENGTH}}$`);
const KEY_LENGTH = PREFIX.length + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH + 2;

export type ParsedApiKey = { readonly id: string; readonly secretHash: Uint8Array };

/** `mr_<id>_<secret><checksum>`: a fixed shape that scanners for leaked secrets recognise and can verify offline. */
export function formatApiKey(random: Uint8Array): ParsedApiKey & { readonly key: string } {
  const id = base62(numberOf(random.subarray(0, ID_BYTES)), ID_LENGTH);
  return formatApiKeyWithId(id, random.subarray(ID_BYTES, API_KEY_RANDOM_BYTES));
}

/** Keeps the id of a key and gives it a new secret. */
export function formatApiKeyWithId(id: string, random: Uint8Array): ParsedApiKey & { readonly key: string } {
  if (random.length < API_KEY_SECRET_BYTES) throw new RangeError(`a secret needs ${API_KEY_SECRET_BYTES} bytes`);
  const secret = base62(numberOf(random.subarray(0, API_KEY_SECRET_BYTES)), SECRET_LENGTH);
  const body = `${PREFIX}_${id}_${secret}`;
  return { id, secretHash: hashOf(secret), key: body + checksumOf(body) };
}

/** Returns null for text that is not an API key. The checksum finds mistyped and truncated keys without a lookup. */
export function parseApiKey(text: string): ParsedApiKey | null {
  if (text.length !== KEY_LENGTH) return null;
  const match = KEY.exec(text);
  if (match === null) return null;
  const body = text.slice(0, -CHECKSUM_LENGTH);
  if (checksumOf(body) !== text.slice(-CHECKSUM_LENGTH)) return null;
  return { id: match[1] as string, secretHash: hashOf(match[2] as string) };
}

export const isApiKeyId = (text: string): boolean => KEY_ID.test(text);

/** Compares in constant time. */
export function isSameSecret(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

// A secret has 256 random bits, so it cannot be guessed and a fast hash is safe.
const hashOf = (secret: string): Uint8Array => hash('sha256', secret, 'buffer');

const checksumOf = (text: string): string => base62(BigInt(crc32(text)), CHECKSUM_LENGTH);

const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);

function base62(value: bigint, length: number): string {
  let rest = value;
  let text = '';
  for (; text.length < length; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text;
  return text;
}
