/** Names that a program may trip over, wherever a user may choose one. */
import fc from 'fast-check';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';

const CATEGORIES = [
  ...['Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mn', 'Mc', 'Me', 'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po'],
  ...['Sm', 'Sc', 'Sk', 'So', 'Zs', 'Zl', 'Zp', 'Cc', 'Cf', 'Cs', 'Co', 'Cn'],
];

/** The first and a later character of each class of Unicode. */
const ONE_OF_EACH = CATEGORIES.flatMap((category) => {
  const isOf = new RegExp(`^\\p{${category}}$`, 'u');
  const points: number[] = [];
  for (let point = 0; point <= 0x10ffff && points.length < 3; point++) if (isOf.test(String.fromCodePoint(point))) points.push(point);
  return [points[0], points[2]].flatMap((point) => (point === undefined ? [] : [String.fromCodePoint(point)]));
});

/** Tried in every position. */
export const WORST: readonly string[] = [
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype', '', 'x'.repeat(10_000)],
  ...['a\0b', '\ud800', 'x\udc00y', '\u202e\u05d0\u0627', '../../etc/passwd', `'"\\\`;--`, 'a\r\nb: c\n\nd'],
];

const ODD: readonly string[] = [
  ...RESERVED_NAMES,
  ...ONE_OF_EACH,
  ...['__proto__.polluted', 'constructor.prototype.polluted', '__proto__[polluted]', '$1', '%s', '%00', '%', '%2e%2e%2f'],
  ...['{}', '[]', '{"a":1}', '*', '?', '#', '&', '=', ',', ':', '/', '\\', '.', '..', ' ', '\t', '\u2028', '\ufeff'],
  ...['null', 'undefined', 'NaN', 'true', '-1', '1e400', '00000000-0000-0000-0000-000000000000', 'é', 'e\u0301', '👩‍👩‍👧‍👦'],
  ...['{le="1"}', 'a"} 1\nb{', '<script>', "' OR 1=1 --", '\u0130', 'ß', 'ﬃ'],
];

export const hostileName = fc.oneof(
  fc.constantFrom(...WORST, ...ODD),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.tuple(fc.constantFrom(...RESERVED_NAMES), fc.constantFrom(...ODD)).map(([one, other]) => one + other),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 }).map((units) => String.fromCharCode(...units)),
);

/** More of them with HOSTILE_RUNS=10000. */
export const HOSTILE_RUNS = Number(process.env.HOSTILE_RUNS ?? 400);

const BUILT_IN: readonly [string, object][] = [
  ['Object.prototype', Object.prototype],
  ['Array.prototype', Array.prototype],
  ['Function.prototype', Function.prototype],
  ['Object', Object],
  ...Object.entries(Object.getOwnPropertyDescriptors(Object.prototype)).flatMap(([name, { value }]): [string, object][] =>
    typeof value === 'function' ? [[`Object.prototype.${name}`, value]] : [],
  ),
];

const described = (): Map<string, PropertyDescriptor> =>
  new Map(
    BUILT_IN.flatMap(([owner, value]) =>
      Reflect.ownKeys(value).map((key): [string, PropertyDescriptor] => [
        `${owner} ${String(key)}`,
        Object.getOwnPropertyDescriptor(value, key) as PropertyDescriptor,
      ]),
    ),
  );

const ORIGINAL = described();

/** What of the objects that all others inherit from differs from when the test began. */
export function pollution(): string[] {
  const now = described();
  const isSame = (one: PropertyDescriptor | undefined, other: PropertyDescriptor): boolean =>
    one !== undefined && one.value === other.value && one.get === other.get && one.set === other.set;
  return [...now].flatMap(([name, descriptor]) => (isSame(ORIGINAL.get(name), descriptor) ? [] : [name]));
}
