import { type Static, type TObject, type TSchema, Type } from 'typebox';

/** A string that is one of these words. */
export const word = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word>({ type: 'string', enum: [...words], ...(description === undefined ? {} : { description }) });

export const wordOrNull = <const Word extends string>(words: readonly Word[], description?: string) =>
  Type.Unsafe<Word | null>({
    type: ['string', 'null'],
    enum: [...words, null],
    ...(description === undefined ? {} : { description }),
  });

export const textOrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description });

/** A shape with a name in the document. Use it with `named`, and export it from its module. */
export const shape = <const Id extends string, P extends Record<string, TSchema>>(
  $id: Id,
  properties: P,
  options: { description?: string; examples?: readonly unknown[] } = {},
): TObject<P> & { $id: Id } => {
  const { examples, ...rest } = options;
  const listed = examples === undefined ? {} : { examples: [...examples] };
  return Type.Object(properties, { $id, title: $id, additionalProperties: false, ...rest, ...listed }) as TObject<P> & {
    $id: Id;
  };
};

type Shape = TSchema & { readonly $id: string };

/** The shapes that schema modules export, in the order of their names, for registration with the server. */
export const shapesIn = (...modules: readonly object[]): Shape[] =>
  modules
    .flatMap((exports): unknown[] => Object.values(exports))
    .filter((each): each is Shape => typeof each === 'object' && each !== null && '$id' in each)
    .sort((left, right) => (left.$id < right.$id ? -1 : 1));

/** A reference to a shape, by its name. */
export const named = <T extends TSchema & { $id: string }>(schema: T, options: { description?: string } = {}) =>
  Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#`, ...options });

/** A response with a description. */
export const answer = <T extends TSchema & { $id: string }>(schema: T, description: string) => named(schema, { description });

/** A time as responses show it. Requests may use any offset and omit seconds. */
export const timestamp = (description: string) => Type.String({ format: 'date-time', description, examples: ['2024-01-15T10:30:00.000Z'] });

export const timestampOrNull = (description: string) =>
  Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description,
    examples: ['2024-01-15T10:30:00.000Z'],
  });
