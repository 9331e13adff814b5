import type { StandardSchemaV1 } from '@standard-schema/spec';
import { lookUp } from '../core/dictionary.ts';
import { MAX_ISSUES } from '../core/errors.ts';
import { suggestion } from '../core/nearest-name.ts';
import type { SimulationBounds } from '../core/simulation.ts';

const SIMULATED_FAILURES = ['TEMPORARY', 'PERMANENT', 'TIMEOUT', 'CRASH'] as const;

export type SimulatedFailure = (typeof SIMULATED_FAILURES)[number];

/** What a simulated job does. */
export type SimulatePayload = {
  /** The duration of the work, before the time scale applies. */
  readonly duration_ms: number;
  /** How failing attempts end. */
  readonly failure?: SimulatedFailure;
  /** How many attempts fail before one succeeds. By default all fail. */
  readonly fail_times?: number;
  /** The number of equal steps of the work. The job reports progress after each. */
  readonly progress_steps?: number;
  /** Stores each completed step; the next attempt continues from there. */
  readonly checkpoint?: boolean;
  /** Child jobs of the same duration, and whether the job waits for them. */
  readonly spawn?: { readonly count: number; readonly join?: boolean };
  /** The result has this many bytes, which are always the same. */
  readonly output_bytes?: number;
};

type Path = readonly string[];
type Check = (value: unknown, path: Path) => StandardSchemaV1.Issue[];

const MAX_STEPS = 1_000;
const MAX_FAIL_TIMES = 1_000;

function membersWithin({ durationMs, outputBytes, children }: SimulationBounds): Record<keyof SimulatePayload, Check> {
  const spawnMembers: Record<string, Check> = { count: integer(1, children), join: boolean };
  return {
    duration_ms: integer(0, durationMs),
    failure: oneOf(SIMULATED_FAILURES),
    fail_times: integer(1, MAX_FAIL_TIMES),
    progress_steps: integer(1, MAX_STEPS),
    checkpoint: boolean,
    spawn: (value, path) => members(value, path, { known: spawnMembers, required: ['count'] }),
    output_bytes: integer(0, outputBytes),
  };
}

export function simulateSchema(bounds: SimulationBounds): StandardSchemaV1<unknown, SimulatePayload> {
  const known = membersWithin(bounds);
  return {
    '~standard': {
      version: 1,
      vendor: 'millrace',
      validate(value) {
        const issues = members(value, [], { known, required: ['duration_ms'] });
        if (issues.length > 0) return { issues };
        const payload = value as SimulatePayload;
        if (payload.fail_times === undefined || payload.failure !== undefined) return { value: payload };
        return { issues: [{ path: ['fail_times'], message: 'needs failure, which says how the attempts fail' }] };
      },
    },
  };
}

function members(
  value: unknown,
  path: Path,
  { known, required }: { known: Record<string, Check>; required: readonly string[] },
): StandardSchemaV1.Issue[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Uint8Array) {
    return [{ path, message: 'must be an object' }];
  }
  const issues: StandardSchemaV1.Issue[] = [];
  for (const [name, member] of Object.entries(value)) {
    if (issues.length >= MAX_ISSUES) break;
    const check = lookUp(known, name);
    if (check !== undefined) issues.push(...check(member, [...path, name]));
    else issues.push({ path: [...path, name.slice(0, 200)], message: `is not known${suggestion(name, Object.keys(known))}` });
  }
  const missing = required.filter((name) => !Object.hasOwn(value, name));
  return [...issues, ...missing.map((name) => ({ path: [...path, name], message: 'is required' }))];
}

function integer(least: number, most: number): Check {
  return (value, path) => {
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return [];
    return [{ path, message: `must be an integer from ${least} to ${most}` }];
  };
}

function boolean(value: unknown, path: Path): StandardSchemaV1.Issue[] {
  return typeof value === 'boolean' ? [] : [{ path, message: 'must be true or false' }];
}

function oneOf(words: readonly string[]): Check {
  return (value, path) =>
    typeof value === 'string' && words.includes(value) ? [] : [{ path, message: `must be one of ${words.join(', ')}` }];
}
