import { describe, expect, it } from 'vitest';
import { boundFields } from '../../src/core/bounded-text.ts';
import { dictionary, lookUp } from '../../src/core/dictionary.ts';
import { checkUpdate } from '../../src/core/job-change.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';
import { DEFAULT_LIMITS, normalizeSubmission, type Submission } from '../../src/core/submission.ts';

const NAMES = [...RESERVED_NAMES];

function refusalsOf(submission: Partial<Submission>): string[] {
  const params = { nowMs: 0, limits: DEFAULT_LIMITS, profile: PROFILES.gopherqueue };
  const normalized = normalizeSubmission({ type: 'plain', payload: {}, ...submission }, params);
  return normalized.ok ? [] : normalized.issues.map(({ field, code }) => `${field} ${code}`);
}

/** Written as a literal, `__proto__` would be the prototype of the object. */
const tagsOf = (name: string): Record<string, string> => Object.fromEntries([[name, 'x']]);

describe('reserved names', () => {
  it('are all that every object has, and `prototype`', () => {
    expect(NAMES.toSorted()).toEqual([...Object.getOwnPropertyNames(Object.prototype), 'prototype'].toSorted());
  });

  it.each(NAMES)('%s is refused as a type and as a tag, with what to do', (name) => {
    expect(refusalsOf({ type: name })).toEqual(['type RESERVED_NAME']);
    expect(refusalsOf({ tags: tagsOf(name) })).toEqual([`tags.${name} RESERVED_NAME`]);
    const changed = checkUpdate({ type: name, tags: tagsOf(name) });
    expect(changed.ok ? [] : changed.issues.map(({ code }) => code)).toEqual(['RESERVED_NAME', 'RESERVED_NAME']);
    if (!changed.ok) expect(changed.issues[0]?.message).toContain('Choose another one');
  });

  it.each(['__proto__', 'constructor', 'prototype'])('%s is refused as a queue', (name) => {
    expect(refusalsOf({ queue: name })).toEqual(['queue RESERVED_NAME']);
  });

  it('may be the value of a tag, a key or a correlation id', () => {
    for (const name of NAMES) {
      expect(refusalsOf({ tags: { name }, idempotencyKey: name, correlationId: name })).toEqual([]);
    }
  });
});

describe('a dictionary', () => {
  it('holds every name as itself, and no name that was not written', () => {
    const made = dictionary(NAMES.map((name, index) => [name, index] as const));
    expect(Object.entries(made)).toEqual(NAMES.map((name, index) => [name, index]));
    expect(dictionary<number>().constructor).toBeUndefined();
    expect(JSON.parse(JSON.stringify(made))).toEqual(Object.fromEntries(Object.entries(made)));
  });

  it('a look-up finds what a table has, not what it inherits', () => {
    expect(lookUp({ known: 1 }, 'known')).toBe(1);
    for (const name of NAMES) expect(lookUp({ known: 1 }, name)).toBeUndefined();
  });

  it('keeps a field of a log line called __proto__ as a field when the line is cut', () => {
    const fields = Object.fromEntries([
      ['__proto__', { level: 'stolen' }],
      ['long', 'x'.repeat(500)],
    ]);
    const kept = boundFields(fields, 200);
    expect(kept.level).toBeUndefined();
    expect(Object.keys(kept)).toContain('__proto__');
  });
});
