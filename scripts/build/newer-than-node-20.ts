/** What the package calls on every Node in place of functions that Node 20 lacks. The sources call the functions themselves. */

export function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve!: PromiseWithResolvers<T>['resolve'];
  let reject!: PromiseWithResolvers<T>['reject'];
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

export function groupIntoMap<K, T>(items: Iterable<T>, keyOf: (item: T, index: number) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  let index = 0;
  for (const item of items) {
    const key = keyOf(item, index++);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

export function groupIntoObject<K extends PropertyKey, T>(
  items: Iterable<T>,
  keyOf: (item: T, index: number) => K,
): Partial<Record<K, T[]>> {
  // Like the original, an object that inherits nothing.
  return Object.assign(Object.create(null), Object.fromEntries(groupIntoMap(items, keyOf)));
}

export function parseUrl(url: string | URL, base?: string | URL): URL | null {
  return URL.canParse(String(url), base === undefined ? undefined : String(base)) ? new URL(url, base) : null;
}
