// Takes from a newer Node what Node 20 does not have, so that the package meets its oldest Node on every machine.
const NEWER = [
  [Array, 'fromAsync'],
  [ArrayBuffer.prototype, 'transfer'],
  [Error, 'isError'],
  [Map, 'groupBy'],
  [Object, 'groupBy'],
  [Promise, 'try', 'withResolvers'],
  [RegExp, 'escape'],
  [Set.prototype, 'difference', 'intersection', 'isDisjointFrom', 'isSubsetOf', 'isSupersetOf', 'symmetricDifference', 'union'],
  [URL, 'parse'],
  [Uint8Array, 'fromBase64', 'fromHex'],
  [Uint8Array.prototype, 'toBase64', 'toHex'],
  [(await import('node:tls')).default, 'getCACertificates'],
];
for (const [owner, ...names] of NEWER) {
  for (const name of names) delete owner[name];
}
const { getBuiltinModule } = process;
process.getBuiltinModule = (name) => (name === 'node:sqlite' ? undefined : getBuiltinModule(name));
if (globalThis.Iterator !== undefined) {
  for (const name of ['map', 'filter', 'take', 'drop', 'flatMap', 'reduce', 'toArray', 'forEach', 'some', 'every', 'find']) {
    delete Iterator.prototype[name];
  }
  delete globalThis.Iterator;
}
