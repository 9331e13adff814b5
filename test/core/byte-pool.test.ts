import { describe, expect, it } from 'vitest';
import { BytePool } from '../../src/core/byte-pool.ts';

/** Fills with 1, 2, 3 ... and goes on where it stopped. */
function counting(): { fill: (bytes: Uint8Array) => void; draws: number[] } {
  const draws: number[] = [];
  let next = 1;
  const fill = (bytes: Uint8Array) => {
    draws.push(bytes.length);
    for (let index = 0; index < bytes.length; index++) bytes[index] = next++;
  };
  return { fill, draws };
}

describe('a pool of bytes', () => {
  it('hands every byte out once and draws when it has too few', () => {
    const { fill, draws } = counting();
    const pool = new BytePool(fill, 8);
    expect([...pool.take(3)]).toEqual([1, 2, 3]);
    expect(pool.takeHex(3)).toBe('040506');
    expect(draws).toEqual([8]);
    expect([...pool.take(3)]).toEqual([9, 10, 11]);
    expect([...pool.take(5)]).toEqual([12, 13, 14, 15, 16]);
    expect(pool.takeHex(8)).toBe('1112131415161718');
    expect(draws).toEqual([8, 8, 8]);
  });
});
