/**
 * Every JavaScript object inherits these names. A program that uses a job type, a queue or a tag as a key of a plain object would
 * read or overwrite inherited members, so new jobs cannot use these names. Jobs from before the rule stay readable.
 */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  '__proto__',
  '__defineGetter__',
  '__defineSetter__',
  '__lookupGetter__',
  '__lookupSetter__',
  'constructor',
  'hasOwnProperty',
  'isPrototypeOf',
  'propertyIsEnumerable',
  'prototype',
  'toLocaleString',
  'toString',
  'valueOf',
]);

export function refuseReservedName(
  name: unknown,
  field: string,
  issues: { add(field: string, code: string, message: string): void },
): void {
  if (typeof name !== 'string' || !RESERVED_NAMES.has(name)) return;
  issues.add(field, 'RESERVED_NAME', `must not be ${name}: JavaScript reserves that name. Choose another one`);
}
