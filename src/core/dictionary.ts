/**
 * An object whose member names come from outside. It has no prototype, so that `__proto__` and `constructor` are ordinary
 * names in it: writing them changes nothing else, and reading a name that was never written returns undefined.
 */
export function dictionary<V>(entries: Iterable<readonly [name: string, value: V]> = []): Record<string, V> {
  const made: Record<string, V> = Object.create(null);
  for (const [name, value] of entries) made[name] = value;
  return made;
}

/** The member of a table that has this name; undefined for names that the table merely inherits, such as `toString`. */
export function lookUp<V>(table: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
