import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CheckDependenciesParams,
  checkDependencies,
  DEPENDENCY_TYPES,
  MAX_BREADTH,
  MAX_DEPENDENTS,
  resolveDependent,
} from '../../src/core/dependencies.ts';
import { isTerminal, JOB_STATES, type JobState } from '../../src/core/states.ts';

type FoundDependency = CheckDependenciesParams['found'][number];

const found = (id: string, more: Partial<FoundDependency> = {}): FoundDependency => ({
  id,
  depth: 0,
  state: 'scheduled',
  isAncestorHolding: false,
  ...more,
});
const check = (dependencies: FoundDependency[], ids = dependencies.map(({ id }) => id)) =>
  checkDependencies({ requested: { ids }, found: dependencies });
const codes = (checked: ReturnType<typeof check>) => (checked.ok ? [] : checked.issues.map(({ code }) => code));

describe('checkDependencies', () => {
  it('places a job one level below its deepest dependency', () => {
    expect(check([])).toEqual({ ok: true, depth: 0 });
    expect(check([found('a', { depth: 4 }), found('b', { depth: 9 })])).toEqual({ ok: true, depth: 10 });
  });

  it('allows a hundred levels and refuses the next [GM-6.08]', () => {
    expect(check([found('a', { depth: 99 })])).toEqual({ ok: true, depth: 100 });
    expect(codes(check([found('a', { depth: 100 })]))).toEqual(['DEPENDENCY_DEPTH']);
  });

  it('allows a thousand dependencies and refuses one more [GM-6.09]', () => {
    const many = Array.from({ length: MAX_BREADTH + 1 }, (_, index) => found(`job-${index}`));
    expect(MAX_BREADTH).toBe(1_000);
    expect(check(many.slice(1)).ok).toBe(true);
    expect(codes(check(many))).toEqual(['DEPENDENCY_BREADTH']);
  });

  it('refuses to be one more than the dependents a job may have', () => {
    expect(check([found('a', { dependents: MAX_DEPENDENTS - 1 })]).ok).toBe(true);
    expect(codes(check([found('a', { dependents: MAX_DEPENDENTS })]))).toEqual(['TOO_MANY_DEPENDENTS']);
  });

  it('refuses an id that no job has [GM-6.10]', () => {
    const checked = check([found('a')], ['a', 'ghost']);
    expect(codes(checked)).toEqual(['DEPENDENCY_NOT_FOUND']);
    expect(!checked.ok && checked.issues[0]?.message).toContain('ghost');
  });

  it('refuses a job that would wait for an ancestor which waits for it [GM-6.06] [GM-6.07]', () => {
    expect(codes(check([found('parent', { isAncestorHolding: true })]))).toEqual(['DEPENDENCY_CYCLE']);
  });

  it('names everything wrong at once, and an id given twice only once', () => {
    const dependencies = [found('deep', { depth: 100 }), found('parent', { isAncestorHolding: true })];
    expect(codes(check(dependencies, ['deep', 'parent', 'ghost', 'ghost'])).sort()).toEqual([
      'DEPENDENCY_CYCLE',
      'DEPENDENCY_DEPTH',
      'DEPENDENCY_NOT_FOUND',
    ]);
  });
});

describe('AFTER', () => {
  it('proceeds only when all dependencies completed [GM-6.01] [GM-6.13]', () => {
    expect(resolveDependent('AFTER', ['completed', 'completed'])).toEqual({ kind: 'proceed' });
    for (const state of JOB_STATES.filter((state) => !isTerminal(state))) {
      expect(resolveDependent('AFTER', ['completed', state])).toEqual({ kind: 'wait' });
    }
  });

  it.each([
    ['failed', 'dependency_failed', '[GM-6.14]'],
    ['dead_letter', 'dependency_dead_letter', '[GM-6.15]'],
    ['cancelled', 'dependency_cancelled', '[GM-6.16]'],
  ] as const)('ends as %s like its dependency, because of %s %s', (state, reason, _requirement) => {
    expect(resolveDependent('AFTER', ['completed', 'running', state])).toMatchObject({
      kind: 'end',
      transition: { from: 'pending', to: state, reason },
      failure: { category: 'PERMANENT', code: 'DEPENDENCY_FAILED' },
    });
  });

  it('takes failed before dead_letter before cancelled when several ended badly', () => {
    const end = (states: JobState[]) => {
      const resolution = resolveDependent('AFTER', states);
      return resolution.kind === 'end' && resolution.transition.to;
    };
    expect(end(['cancelled', 'dead_letter', 'failed'])).toBe('failed');
    expect(end(['cancelled', 'dead_letter'])).toBe('dead_letter');
  });
});

describe('AFTER_ANY', () => {
  it('proceeds with the first dependency that ends, well or badly [GM-6.02]', () => {
    expect(resolveDependent('AFTER_ANY', ['running', 'scheduled'])).toEqual({ kind: 'wait' });
    for (const state of JOB_STATES.filter(isTerminal)) {
      expect(resolveDependent('AFTER_ANY', ['running', state])).toEqual({ kind: 'proceed' });
    }
  });
});

describe('CHAIN', () => {
  it('goes on after success and stops at the first bad end [GM-6.03]', () => {
    expect(resolveDependent('CHAIN', ['completed'])).toEqual({ kind: 'proceed' });
    expect(resolveDependent('CHAIN', ['running'])).toEqual({ kind: 'wait' });
    for (const state of ['failed', 'dead_letter', 'cancelled'] as const) {
      expect(resolveDependent('CHAIN', ['completed', state])).toMatchObject({
        kind: 'end',
        transition: { from: 'pending', to: state, reason: 'chain_stopped' },
      });
    }
  });
});

describe('any dependent', () => {
  const type = fc.constantFrom(...DEPENDENCY_TYPES);
  const states = fc.array(fc.constantFrom(...JOB_STATES), { maxLength: 8 });

  it('is decided alike whatever the order of its dependencies, and never waits on ended ones', () => {
    fc.assert(
      fc.property(type, states, (kind, list) => {
        const resolution = resolveDependent(kind, list);
        expect(resolveDependent(kind, list.toReversed())).toEqual(resolution);
        if (list.every(isTerminal)) expect(resolution.kind).not.toBe('wait');
      }),
    );
  });
});
