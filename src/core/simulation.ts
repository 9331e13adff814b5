import { MAX_CHILDREN } from './dependencies.ts';
import type { Issue } from './errors.ts';
import { DEFAULT_MAX_RESULT_BYTES } from './payload.ts';

/** The built-in job type that waits, fails, spawns and returns as its payload says. */
export const SIMULATE_TYPE = 'simulate' as const;

/** The most that the payload of one simulated job may ask for. */
export type SimulationBounds = {
  /** Before the time scale applies. */
  readonly durationMs: number;
  readonly outputBytes: number;
  readonly children: number;
};

export const WIDEST_SIMULATION: SimulationBounds = Object.freeze({
  durationMs: 86_400_000,
  outputBytes: DEFAULT_MAX_RESULT_BYTES,
  children: MAX_CHILDREN,
});

/** Returns an issue for each member that asks for more than the bounds allow. The handler validates the rest of the payload. */
export function checkSimulation(payload: unknown, bounds: SimulationBounds): Issue[] {
  if (typeof payload !== 'object' || payload === null) return [];
  const { duration_ms, output_bytes, spawn } = payload as Readonly<Record<string, unknown>>;
  const count = typeof spawn === 'object' && spawn !== null ? (spawn as { count?: unknown }).count : undefined;
  return [
    ...tooMuch('duration_ms', duration_ms, { most: bounds.durationMs, setting: 'max_duration' }),
    ...tooMuch('output_bytes', output_bytes, { most: bounds.outputBytes, setting: 'max_output' }),
    ...tooMuch('spawn.count', count, { most: bounds.children, setting: 'max_children' }),
  ];
}

function tooMuch(member: string, value: unknown, { most, setting }: { most: number; setting: string }): Issue[] {
  if (typeof value !== 'number' || value <= most) return [];
  const field = `payload.${member}`;
  return [{ field, code: 'OUT_OF_RANGE', message: `${field} must be at most ${most} on this server (simulation.${setting})` }];
}
