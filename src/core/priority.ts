/** Most urgent first: the index is the number stored, and a lower number is claimed before a higher one. */
export const PRIORITIES = ['CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK'] as const;

export type Priority = (typeof PRIORITIES)[number];

const NUMBERS = { CRITICAL: 0, HIGH: 1, NORMAL: 2, LOW: 3, BULK: 4 } as const satisfies Record<Priority, number>;

export const DEFAULT_PRIORITY: Priority = 'NORMAL';

export function isPriority(value: unknown): value is Priority {
  return typeof value === 'string' && Object.hasOwn(NUMBERS, value);
}

export function priorityNumber(priority: Priority): number {
  return NUMBERS[priority];
}

export function priorityName(number: number): Priority {
  const name = PRIORITIES[number];
  if (name === undefined) throw new RangeError(`no priority has the number ${number}`);
  return name;
}

/** Inheritance only raises urgency: a job keeps its own priority when its dependencies are less urgent. */
export function inheritPriority(own: number, dependencyNumbers: readonly number[]): number {
  let effective = own;
  for (const number of dependencyNumbers) if (number < effective) effective = number;
  return effective;
}
