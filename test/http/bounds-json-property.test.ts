import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { parseSafely } from '../../src/http/shared/safe-json.ts';

/** What the guard says of a text: its value, or the code of its refusal. */
function judge(bytes: Buffer): { value: unknown } | { refused: string | undefined } {
  try {
    return { value: parseSafely(bytes) };
  } catch (error) {
    if (!isAppError(error, 'INVALID_REQUEST')) throw error;
    return { refused: error.details[0]?.code };
  }
}

const isWell = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

function isHarmless(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return isWell(value);
  if (typeof value !== 'object' || value === null) return true;
  if (depth >= 64) return false;
  return Object.keys(value).every((name) => {
    const member = Object.getOwnPropertyDescriptor(value, name)?.value;
    const isPoison = name === '__proto__' || (name === 'constructor' && Object.hasOwn(Object(member), 'prototype'));
    return isWell(name) && !(isPoison && (name === '__proto__' || typeof member === 'object')) && isHarmless(member, depth + 1);
  });
}

/** Every character as an escape, so that nothing can be found by looking at the text. */
const escaped = (json: string): string =>
  json.replace(/"(?:[^"\\]|\\.)*"/g, (text) => {
    const units = [...Array(JSON.parse(text).length).keys()].map((at) => JSON.parse(text).charCodeAt(at));
    return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}"`;
  });

const names = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'a', '\0', '\ud800'),
  fc.string({ unit: 'binary', maxLength: 5 }),
);
const { value: hostileJson } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.oneof(names, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(names, tie('value')), { maxLength: 4 }).map((pairs) => {
      const made = {};
      for (const [name, value] of pairs) Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
      return made;
    }),
  ),
}));

describe('the guard of JSON bodies', () => {
  it('passes harmless JSON unchanged and refuses the rest, in any spelling', () => {
    fc.assert(
      fc.property(hostileJson, fc.boolean(), (value, isEscaped) => {
        const json = isEscaped ? escaped(JSON.stringify(value)) : JSON.stringify(value);
        const verdict = judge(Buffer.from(json));
        expect('value' in verdict).toBe(isHarmless(JSON.parse(json)));
        if ('value' in verdict) expect(verdict.value).toEqual(JSON.parse(json));
      }),
      { numRuns: 3_000 },
    );
  });

  it('answers every sequence of bytes with a value or a refusal', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
      fc
        .array(fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', 'u0000', '1e9', '0', 'null'), {
          maxLength: 200,
        })
        .map((parts) => Buffer.from(parts.join(''))),
    );
    fc.assert(
      fc.property(bytes, (body) => void judge(body)),
      { numRuns: 3_000 },
    );
  });
});
