import AjvCompiler from '@fastify/ajv-compiler';
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';

type Compiled = ((data: unknown) => unknown) & { errors?: unknown };
type Factory = (...given: never[]) => (route: never) => Compiled;

/**
 * Compiles the schemas of a route when the first request needs them. To compile all of them took most of the time of a start: 1.9 s of
 * processor time for the queue API alone, and 0.01 s without (two runs each).
 */
const lazily =
  (factory: Factory): Factory =>
  (...given) => {
    const compile = once(() => factory(...given));
    return (route) => {
      const compiled = once(() => compile()(route));
      const run: Compiled = (data) => {
        const result = compiled()(data);
        run.errors = compiled().errors;
        return result;
      };
      return run;
    };
  };

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

const validators = AjvCompiler();
const serializers = SerializerSelector();

export const LAZY_COMPILERS = {
  buildValidator: lazily(validators as unknown as Factory) as unknown as typeof validators,
  buildSerializer: lazily(serializers as unknown as Factory) as unknown as typeof serializers,
};
