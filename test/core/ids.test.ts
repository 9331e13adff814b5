import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attemptIdOf, isUuid, uuidV4 } from '../../src/core/ids.ts';

const sixteenBytes = fc.uint8Array({ minLength: 16, maxLength: 16 });
const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe('uuidV4', () => {
  it('has version nibble 4 and variant bits 10, whatever the random bytes [GM-1.02]', () => {
    fc.assert(
      fc.property(sixteenBytes, (random) => {
        const id = uuidV4(random);
        expect(id).toMatch(CANONICAL);
        expect(id[14]).toBe('4');
        expect('89ab').toContain(id[19]);
        expect(isUuid(id)).toBe(true);
      }),
    );
  });

  it('keeps the other 122 bits as drawn and leaves the given bytes alone', () => {
    const random = new Uint8Array(16).fill(0xff);
    expect(uuidV4(random)).toBe('ffffffff-ffff-4fff-bfff-ffffffffffff');
    expect(random.every((byte) => byte === 0xff)).toBe(true);
    expect(uuidV4(new Uint8Array(16))).toBe('00000000-0000-4000-8000-000000000000');
  });

  it('refuses too few bytes rather than repeat itself', () => {
    expect(() => uuidV4(new Uint8Array(15))).toThrow('a UUID needs 16 bytes, not 15');
  });
});

describe('attemptIdOf', () => {
  const job = '4b9f0f8e-4b7a-4d5e-8f00-1234567890ab';

  it('gives each lease of each job its own id, the same every time [GM-7.08]', () => {
    expect(attemptIdOf(job, 1)).toBe(attemptIdOf(job, 1n));
    const ids = new Set<string>();
    for (let lease = 1; lease <= 200; lease++) {
      ids.add(attemptIdOf(job, lease));
      ids.add(attemptIdOf(job.replace('4b9f', '4b9e'), lease));
    }
    expect(ids.size).toBe(400);
    for (const id of ids) {
      expect(isUuid(id)).toBe(true);
      expect(id[14]).toBe('8');
    }
  });
});

describe('isUuid', () => {
  it('refuses everything else', () => {
    const id = uuidV4(new Uint8Array(16));
    expect(isUuid(id.toUpperCase())).toBe(true);
    for (const other of ['', id.slice(1), `${id}0`, `{${id}}`, id.replaceAll('-', ''), 'not-a-uuid', 4, null]) {
      expect(isUuid(other)).toBe(false);
    }
  });
});
