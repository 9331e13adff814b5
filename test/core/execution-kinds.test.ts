import { describe, expect, it } from 'vitest';
import {
  EXECUTION_TYPE,
  EXECUTION_TYPES,
  isExecutionType,
  isWorkKind,
  KINDS,
  type KindSpec,
  WORK_KINDS,
} from '../../src/core/execution/kinds.ts';

const specs = Object.entries(KINDS) as [string, KindSpec][];

describe('the catalogue of work kinds', () => {
  it('holds exactly 31 kinds, each once [FR-06.18]', () => {
    expect(WORK_KINDS).toHaveLength(31);
    expect(new Set(WORK_KINDS).size).toBe(31);
    expect(Object.keys(KINDS).toSorted()).toEqual([...WORK_KINDS].toSorted());
  });

  it('cannot be changed by anybody, so a kind always means the same behaviour [FR-06.17]', () => {
    expect(Object.isFrozen(KINDS)).toBe(true);
    for (const [, spec] of specs) expect(Object.isFrozen(spec)).toBe(true);
  });

  it('knows a kind and a type by their exact names only', () => {
    expect(isWorkKind('SUCCESS_FAST')).toBe(true);
    for (const other of ['success_fast', 'toString', '', null, 1]) expect(isWorkKind(other)).toBe(false);
    expect(EXECUTION_TYPES.every(isExecutionType)).toBe(true);
    expect(isExecutionType(EXECUTION_TYPE)).toBe(false);
  });

  it('says consistently how a kind fails', () => {
    for (const [kind, spec] of specs) {
      expect([kind, spec.failure !== 'none', spec.failsUntilAttempt > 0]).toEqual([kind, spec.shouldFail, spec.shouldFail]);
      expect([kind, spec.temper === 'failure']).toEqual([kind, spec.shouldFail]);
    }
  });

  it('has some of each temper for each type', () => {
    for (const type of EXECUTION_TYPES) {
      const tempers = specs.filter(([, { types }]) => types.includes(type)).map(([, { temper }]) => temper);
      expect(new Set(tempers)).toEqual(new Set(['success', 'failure', 'slow']));
    }
  });

  it('keeps the kinds that need a time for the type that has one', () => {
    for (const [kind, { types }] of specs) expect(types).toEqual(kind.startsWith('SCHEDULED_') ? ['DEFERRED'] : EXECUTION_TYPES);
  });
});
