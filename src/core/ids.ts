import { createHash } from 'node:crypto';

const DIGITS = Buffer.from('0123456789abcdef');
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const UUID_BYTES = 16;
const TIME_BYTES = 6;

/** Formats 16 random bytes of the caller as a version 4 UUID. */
export function uuidV4(random: Uint8Array): string {
  if (random.length < UUID_BYTES) throw new RangeError(`a UUID needs ${UUID_BYTES} bytes, not ${random.length}`);
  return format(random, 4);
}

/** Formats a time and random bytes of the caller as a version 7 UUID. Such ids sort by time. */
export function uuidV7(atMs: number, random: Uint8Array): string {
  if (random.length < UUID_BYTES) throw new RangeError(`a UUID needs ${UUID_BYTES} bytes, not ${random.length}`);
  const bytes = Uint8Array.from(random);
  for (let index = 0; index < TIME_BYTES; index++) bytes[index] = Math.floor(atMs / 256 ** (TIME_BYTES - 1 - index)) % 256;
  return format(bytes, 7);
}

/** Derived from the job and its lease, so it need not be stored. */
export const attemptIdOf = (jobId: string, leaseSeq: number | bigint): string => derivedId(`${jobId}:${leaseSeq}`);

/** The same change of the same job always has the same event id. */
export const eventIdOf = (jobId: string, change: string): string => derivedId(`event:${jobId}:${change}`);

const derivedId = (name: string): string => format(createHash('sha256').update(name).digest(), 8);

export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && value.length === 36 && UUID.test(value);
}

const text = Buffer.alloc(36, '-');

/** Writes the digits into one buffer. Concatenated strings would leave 600 bytes of garbage per id. */
function format(bytes: Uint8Array, version: number): string {
  let at = 0;
  for (let index = 0; index < UUID_BYTES; index++) {
    let byte = bytes[index]!;
    if (index === 6) byte = (byte & 0x0f) | (version << 4);
    else if (index === 8) byte = (byte & 0x3f) | 0x80;
    if (index === 4 || index === 6 || index === 8 || index === 10) at++;
    text[at++] = DIGITS[byte >> 4]!;
    text[at++] = DIGITS[byte & 0x0f]!;
  }
  return text.toString('latin1');
}
