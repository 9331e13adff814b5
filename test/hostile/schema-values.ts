/** Values that a JSON schema of the OpenAPI document allows, or nearly allows. */
import fc from 'fast-check';
import { hostileName } from './names.ts';

export type Schema = {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
};

/** Finds the schema that a reference names. */
export type Resolve = (reference: string) => Schema;

const MAX_DEPTH = 6;
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  uuid: ['00000000-0000-4000-8000-000000000000', '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11'],
  'date-time': ['2030-01-01T00:00:00.000Z', '1970-01-01T00:00:00Z', '2030-01-01T00:00:00+25:00', '9999-12-31T23:59:59.999999Z'],
  uri: ['https://public.example/', 'http://127.0.0.1:1/', 'https://[::1]/', 'javascript:alert(1)', 'https://public.example/%00'],
};

const NUMBERS: readonly number[] = [0, 1, -1, 1.5, 100, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308];

const anyText = fc.oneof({ weight: 3, arbitrary: hostileName }, { weight: 1, arbitrary: fc.constantFrom(...Object.values(TEXTS).flat()) });

const anyScalar = fc.oneof(anyText, fc.constantFrom(...NUMBERS), fc.boolean(), fc.constant(null));

/** Anything that JSON can say, with names that a program may trip over. */
const anyJson: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    anyScalar,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(hostileName, tie('value')), { maxLength: 4 }).map(objectOf),
  ),
})).value;

/** Members by definition, so that `__proto__` is one like any other. */
function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  const made = {};
  for (const [name, value] of entries) Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
  return made;
}

/** Mostly what the schema allows. About one value in twenty is anything else. */
export function valueFor(schema: Schema, resolve: Resolve, depth = 0): fc.Arbitrary<unknown> {
  if (depth > MAX_DEPTH) return anyScalar;
  return fc.oneof({ weight: 19, arbitrary: allowedBy(schema, resolve, depth) }, { weight: 1, arbitrary: anyJson });
}

function allowedBy(schema: Schema, resolve: Resolve, depth: number): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return valueFor(resolve(schema.$ref), resolve, depth + 1);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return fc.oneof(...choices.map((each) => valueFor(each, resolve, depth + 1)));
  if (schema.allOf !== undefined) return fc.oneof(...schema.allOf.map((each) => valueFor(each, resolve, depth + 1)));
  const types = [schema.type ?? 'any'].flat();
  return fc.oneof(...types.map((type) => ofType(type, schema, resolve, depth)));
}

function ofType(type: string, schema: Schema, resolve: Resolve, depth: number): fc.Arbitrary<unknown> {
  switch (type) {
    case 'object':
      return object(schema, resolve, depth);
    case 'array':
      return fc.array(valueFor(schema.items ?? {}, resolve, depth + 1), { maxLength: 3 });
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer({ min: Math.ceil(schema.minimum ?? 0), max: schema.maximum ?? 1_000 }), fc.constantFrom(...NUMBERS));
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'string':
      return fc.oneof(anyText, fc.constantFrom('noop', 'simulate', ...(TEXTS[schema.format ?? ''] ?? ['x'])));
    default:
      return anyJson;
  }
}

function object({ properties = {}, required = [] }: Schema, resolve: Resolve, depth: number): fc.Arbitrary<object> {
  const members = Object.entries(properties).map(([name, schema]) =>
    fc
      .tuple(valueFor(schema, resolve, depth + 1), fc.nat(9))
      .map(([value, chance]): [string, unknown][] => (chance < (required.includes(name) ? 9 : 3) ? [[name, value]] : [])),
  );
  const more = fc.oneof({ weight: 6, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(fc.tuple(hostileName, anyJson)) });
  return fc.tuple(fc.tuple(...members), more).map(([known, added]) => objectOf([...known.flat(), ...added]));
}
