/**
 * Nothing in this process can add a member to what every object inherits, or replace one. A mistake that would hand such a
 * member to every request of every org throws where it is made instead. The package leaves this to the application that uses it.
 *
 * Freezing alone would go too far: assigning `toString` to an object that inherits a read-only one throws, and libraries do
 * that. So each member becomes an accessor whose setter gives the object that was assigned to a member of its own.
 */
function guard(prototype) {
  for (const name of Reflect.ownKeys(prototype)) {
    const { value, writable } = Object.getOwnPropertyDescriptor(prototype, name);
    if (writable !== true) continue;
    // `x[name].count = 1` reaches the member itself where `name` is toString.
    Object.preventExtensions(value);
    const set = function (given) {
      if (this === prototype) throw new TypeError(`Cannot replace ${String(name)} of a built-in prototype`);
      Object.defineProperty(this, name, { value: given, writable: true, enumerable: true, configurable: true });
    };
    Object.defineProperty(prototype, name, { get: () => value, set, configurable: false });
  }
  Object.freeze(prototype);
}

guard(Object.prototype);
// These two only refuse new members. Accessors turn off V8's shortcuts for iterating arrays, and no name replaces a member.
Object.preventExtensions(Array.prototype);
Object.preventExtensions(Function.prototype);
