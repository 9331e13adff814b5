import { hash, timingSafeEqual } from 'node:crypto';

/** What a key may do. */
export const API_KEY_SCOPES = [
  'jobs:write',
  'jobs:read',
  'jobs:cancel',
  'failures:read',
  'deadletter:manage',
  'queue:critical',
  'audit:read',
  'operator',
] as const;

export type ApiKeyScope = (typeof API_KEY_SCOPES)[number];

/** What a key gets unless told: submit, follow and stop jobs of its org. */
export const DEFAULT_SCOPES: readonly ApiKeyScope[] = ['jobs:write', 'jobs:read', 'jobs:cancel', 'failures:read'];

export const DEFAULT_KEY_LIFETIME_MS = 90 * 86_400_000;

const PREFIX = 'mr';
const ID_BYTES = 9;
/** How many bytes the caller must draw for another secret of a key. */
export const API_KEY_SECRET_BYTES = 32;
/** How many bytes the caller must draw for one key. */
export const API_KEY_RANDOM_BYTES = ID_BYTES + API_KEY_SECRET_BYTES;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_LENGTH = 13;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const KEY = new RegExp(
  `^${PREFIX}_([0-9A-Za-z]{${ID_LENGTH}})_([0-9A-Za-z]{${SECRET_LENGTH}})[0-9A-Za-z]{${CHECKSUM_LENGTH}}$`,
);
const KEY_ID = new RegExp(`^[0-9A-Za-z]{${ID_LENGTH}}$`);
const KEY_LENGTH = PREFIX.length + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH + 2;

export type ParsedApiKey = { readonly id: string; readonly secretHash: Uint8Array };

/** `mr_<id>_<secret><checksum>`: a fixed shape that scanners for leaked secrets recognise and can verify offline. */
export function formatApiKey(random: Uint8Array): ParsedApiKey & { readonly key: string } {
  if (random.length < API_KEY_RANDOM_BYTES) throw new RangeError(`${API_KEY_RANDOM_BYTES} bytes are needed`);
  const id = base62(random.subarray(0, ID_BYTES), ID_LENGTH);
  return formatApiKeyWithId(id, random.subarray(ID_BYTES, API_KEY_RANDOM_BYTES));
}

/** A key that keeps its id and gets another secret. */
export function formatApiKeyWithId(id: string, random: Uint8Array): ParsedApiKey & { readonly key: string } {
  if (random.length < API_KEY_SECRET_BYTES) throw new RangeError(`${API_KEY_SECRET_BYTES} bytes are needed`);
  const secret = base62(random.subarray(0, API_KEY_SECRET_BYTES), SECRET_LENGTH);
  const body = `${PREFIX}_${id}_${secret}`;
  return { id, secretHash: hashOf(secret), key: body + checksumOf(body) };
}

/** Null for everything that cannot be a key of ours: a mistyped or truncated one is found out here. */
export function parseApiKey(text: string): ParsedApiKey | null {
  if (text.length !== KEY_LENGTH) return null;
  const match = KEY.exec(text);
  if (match === null) return null;
  const body = text.slice(0, -CHECKSUM_LENGTH);
  if (checksumOf(body) !== text.slice(-CHECKSUM_LENGTH)) return null;
  return { id: match[1] as string, secretHash: hashOf(match[2] as string) };
}

export const isApiKeyId = (text: string): boolean => KEY_ID.test(text);

/** In a time that does not depend on where the two differ. */
export function isSameSecret(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

// The secret has 256 bits of chance, so a plain fast hash is enough: there is nothing to guess from a dictionary.
const hashOf = (secret: string): Uint8Array => hash('sha256', secret, 'buffer');

function base62(bytes: Uint8Array, length: number): string {
  let rest = 0n;
  for (const byte of bytes) rest = rest * 256n + BigInt(byte);
  let text = '';
  for (; text.length < length; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text;
  return text;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** CRC-32 of ASCII text in base 62. */
function checksumOf(text: string): string {
  let crc = 0xffffffff;
  for (let at = 0; at < text.length; at++) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ text.charCodeAt(at)) & 0xff]!;
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = '';
  for (; digits.length < CHECKSUM_LENGTH; rest = Math.floor(rest / 62)) digits = DIGITS[rest % 62] + digits;
  return digits;
}
