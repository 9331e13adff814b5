/** Most urgent first. The index is the stored number, and lower numbers are claimed first. */
export const PRIORITIES = ['CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK'] as const;

/** The priority of a job. Jobs of a higher priority start first. */
export type Priority = (typeof PRIORITIES)[number];

export const DEFAULT_PRIORITY: Priority = 'NORMAL';

export function isPriority(value: unknown): value is Priority {
  return (PRIORITIES as readonly unknown[]).includes(value);
}

export function priorityNumber(priority: Priority): number {
  return PRIORITIES.indexOf(priority);
}

export function priorityName(number: number): Priority {
  const name = PRIORITIES[number];
  if (name === undefined) throw new RangeError(`no priority has the number ${number}`);
  return name;
}

/** The most urgent of a job's own priority and those it inherits. */
export function inheritPriority(own: number, inherited: readonly number[]): number {
  return inherited.reduce((most, number) => Math.min(most, number), own);
}
