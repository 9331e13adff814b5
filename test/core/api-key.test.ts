import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  API_KEY_RANDOM_BYTES,
  API_KEY_SCOPES,
  API_KEY_SECRET_BYTES,
  DEFAULT_KEY_LIFETIME_MS,
  DEFAULT_SCOPES,
  formatApiKey,
  formatApiKeyWithId,
  isApiKeyId,
  isSameSecret,
  parseApiKey,
} from '../../src/core/api-key.ts';

const random = fc.uint8Array({ minLength: API_KEY_RANDOM_BYTES, maxLength: API_KEY_RANDOM_BYTES });
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('an API key', () => {
  it('has a shape that scanners find: prefix, id, 32 random bytes and a checksum', () => {
    fc.assert(
      fc.property(random, (bytes) => {
        expect(formatApiKey(bytes).key).toMatch(/^mr_[0-9A-Za-z]{13}_[0-9A-Za-z]{49}$/);
      }),
    );
  });

  it('is read back as the id and the hash that were made with it', () => {
    fc.assert(
      fc.property(random, (bytes) => {
        const { key, id, secretHash } = formatApiKey(bytes);
        expect(parseApiKey(key)).toEqual({ id, secretHash });
        expect(isApiKeyId(id)).toBe(true);
      }),
    );
  });

  it('is as different as the bytes it is made from: ids and secrets keep every bit', () => {
    fc.assert(
      fc.property(random, fc.nat(API_KEY_RANDOM_BYTES - 1), fc.integer({ min: 1, max: 255 }), (bytes, at, flip) => {
        const other = Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ flip : byte));
        expect(formatApiKey(other).key).not.toBe(formatApiKey(bytes).key);
      }),
    );
  });

  it('ends with the CRC-32 of the rest in base 62, which anybody can verify offline', () => {
    const { key } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
    const value = [...key.slice(-6)].reduce((sum, digit) => sum * 62 + DIGITS.indexOf(digit), 0);
    expect(value).toBe(crc32(key.slice(0, -6)));
  });

  it('keeps a SHA-256 of its secret and nothing else of it', () => {
    const { key, secretHash } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
    const secret = key.split('_')[2]?.slice(0, 43) as string;
    expect(Buffer.from(secretHash)).toEqual(createHash('sha256').update(secret).digest());
  });

  it('refuses too little chance', () => {
    expect(() => formatApiKey(new Uint8Array(API_KEY_RANDOM_BYTES - 1))).toThrow(RangeError);
  });
});

describe('what is no API key', () => {
  it('any single character changed is found by the checksum', () => {
    fc.assert(
      fc.property(random, fc.nat(65), fc.constantFrom(...DIGITS, '_', '-', ' '), (bytes, at, character) => {
        const { key } = formatApiKey(bytes);
        fc.pre(key[at] !== character);
        expect(parseApiKey(key.slice(0, at) + character + key.slice(at + 1))).toBeNull();
      }),
    );
  });

  it('two neighbours exchanged, a cut or a longer key are found', () => {
    const { key } = formatApiKey(Uint8Array.from({ length: API_KEY_RANDOM_BYTES }, (_, index) => index * 5 + 1));
    const swapped = key.slice(0, 20) + key[21] + key[20] + key.slice(22);
    expect(swapped).not.toBe(key);
    for (const text of ['', 'mr_', swapped, key.slice(0, -1), `${key}0`, ` ${key}`, `${key}\n`, key.toLowerCase()]) {
      expect(parseApiKey(text)).toBeNull();
    }
  });

  it('no text whatever makes the parser throw', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (text) => parseApiKey(text) === null));
  });

  it.each(['', '123', '0Fv3qLxk9TzPa0', '0Fv3qLxk9TzP_', "0'; DROP--123"])('%j is no id', (text) => {
    expect(isApiKeyId(text)).toBe(false);
  });
});

describe('another secret', () => {
  it('for a key keeps its id and is a key like any other', () => {
    const { id, key } = formatApiKey(randomBytes(API_KEY_RANDOM_BYTES));
    const next = formatApiKeyWithId(id, randomBytes(API_KEY_SECRET_BYTES));
    expect(parseApiKey(next.key)).toEqual({ id, secretHash: next.secretHash });
    expect(next.key).not.toBe(key);
    expect(() => formatApiKeyWithId(id, randomBytes(API_KEY_SECRET_BYTES - 1))).toThrow(RangeError);
  });
});

describe('secrets', () => {
  it('are the same only when every byte is', () => {
    const hash = randomBytes(32);
    expect(isSameSecret(hash, Uint8Array.from(hash))).toBe(true);
    for (const at of [0, 15, 31]) {
      const other = Uint8Array.from(hash);
      other[at]! ^= 1;
      expect(isSameSecret(hash, other)).toBe(false);
    }
    expect(isSameSecret(hash, hash.subarray(0, 31))).toBe(false);
  });
});

it('a key gets no scope by itself that no key can have', () => {
  expect(API_KEY_SCOPES).toEqual(expect.arrayContaining([...DEFAULT_SCOPES]));
});

it('a key lives 90 days unless told', () => {
  expect(DEFAULT_KEY_LIFETIME_MS).toBe(90 * 24 * 3_600_000);
});
