import type { Kind, Value } from './values.ts';

export type Setting = {
  readonly kind: Kind;
  /** Null: not set. */
  readonly default: Value | null;
  readonly help: string;
  /** Masked wherever it is shown: the whole value, or the password of a URL. */
  readonly secret?: 'whole' | 'password';
  /** Other variables for this setting. MILLRACE_<SECTION>_<KEY> overrides them. */
  readonly variables?: readonly string[];
};

export const SECOND = 1_000;
export const DAY = 86_400_000;

/** A hundred years. Statements subtract durations from now, and PostgreSQL has no dates before 4713 BC. */
const LONGEST = 36_500 * DAY;

export const duration = (minMs = 1, maxMs = LONGEST): Kind => ({ type: 'duration', minMs, maxMs });
export const integer = (min: number, max?: number): Kind => ({ type: 'integer', min, max });
export const TEXT: Kind = { type: 'text' };
export const BOOLEAN: Kind = { type: 'boolean' };
export const LIST: Kind = { type: 'list' };

export function setting(kind: Kind, value: Value | null, help: string, more?: Pick<Setting, 'secret' | 'variables'>): Setting {
  return { kind, default: value, help, ...more };
}
