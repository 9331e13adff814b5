import { Issues } from './issues.ts';
import { suggestion } from './nearest-name.ts';

/** The names of the members of T. The compiler refuses a table that misses one, so no option can be forgotten. */
export const membersOf = <T>(members: { readonly [Name in keyof Required<T>]: true }): readonly string[] => Object.keys(members);

/** Adds an issue for each member that is not known, with the most similar name that is. `prefix` names the object: `backoff.`. */
export function refuseUnknown(given: object, known: readonly string[], issues: Issues, prefix = ''): void {
  for (const member of Object.keys(given)) {
    if (issues.isFull) return;
    if (!known.includes(member)) issues.add(`${prefix}${member}`, 'UNKNOWN_MEMBER', `is not known${suggestion(member, known)}`);
  }
}

/** Whether the value is an object with members, and no array. */
export const isRecord = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Throws INVALID_REQUEST if the value is not an object, or has a member that is not known. */
export function checkMembers(given: unknown, known: readonly string[], what = 'options'): void {
  const issues = new Issues();
  if (isRecord(given)) refuseUnknown(given, known, issues);
  else issues.add(what, 'INVALID_TYPE', 'must be an object');
  issues.throwIfAny();
}
