import { createHash } from 'node:crypto';

const DIGITS = Buffer.from('0123456789abcdef');
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const UUID_BYTES = 16;

/** A random UUID from 16 bytes that the caller drew. */
export function uuidV4(random: Uint8Array): string {
  return stamp(demand(random, UUID_BYTES), 4);
}

/** A UUID whose first 48 bits are the time, from at least 10 bytes that the caller drew. */
export function uuidV7({ random, nowMs }: { random: Uint8Array; nowMs: number }): string {
  const bytes = new Uint8Array(UUID_BYTES);
  let rest = nowMs;
  for (let index = 5; index >= 0; index--) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes.set(demand(random, UUID_BYTES - 6).subarray(0, UUID_BYTES - 6), 6);
  return stamp(bytes, 7);
}

/** The same job and lease always give the same attempt id, so no reader needs it stored beside the lease. */
export function attemptIdOf(jobId: string, leaseSeq: number | bigint): string {
  const digest = createHash('sha256').update(`${jobId}:${leaseSeq}`).digest();
  return stamp(digest, 8);
}

/** The same change of the same job always gives the same event id. */
export function eventIdOf(jobId: string, change: string): string {
  const digest = createHash('sha256').update(`event:${jobId}:${change}`).digest();
  return stamp(digest, 8);
}

export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && value.length === 36 && UUID.test(value);
}

export function isUuidV4(value: unknown): value is string {
  return isUuid(value) && value[14] === '4';
}

function demand(bytes: Uint8Array, count: number): Uint8Array {
  if (bytes.length < count) throw new RangeError(`${count} bytes are needed, ${bytes.length} were given`);
  return bytes;
}

const text = Buffer.alloc(36, '-');

/** By way of bytes it is one piece; put together from its digits it would be a chain of twenty strings, 600 bytes of garbage an id. */
function stamp(bytes: Uint8Array, version: number): string {
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
