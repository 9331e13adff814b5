/**
 * An object whose member names come from users. It has no prototype, so `__proto__` and `constructor` are ordinary names in it.
 */
export function dictionary<V>(entries: Iterable<readonly [name: string, value: V]> = []): Record<string, V> {
  const made: Record<string, V> = Object.create(null);
  for (const [name, value] of entries) made[name] = value;
  return made;
}

/** Reads a member by a name that a user gave. Inherited names such as `toString` return undefined. */
export function lookUp<V>(table: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
