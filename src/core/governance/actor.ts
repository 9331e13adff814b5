/** Who causes a change: somebody at a console, Millrace itself, or the holder of an API key. */
export type ActorType = 'user' | 'system' | 'api_key';

/** An actor in the form that the ledger stores. */
export type Actor = { readonly type: ActorType; readonly id: string };

/** The actor of everyone who uses the operator token. */
export const OPERATOR = 'user:operator';

/** The actor of jobs that no request brought, for example those of a program that uses the library. */
export const NO_ACTOR: Actor = Object.freeze({ type: 'system', id: 'millrace' });

const TYPES: ReadonlySet<string> = new Set<ActorType>(['user', 'system', 'api_key']);

/** Splits `api_key:4kJ…` into its type and id. Text without a known type is the id of a part of Millrace. */
export function actorOfText(text: string | null): Actor {
  if (text === null || text === '') return NO_ACTOR;
  const colon = text.indexOf(':');
  const type = text.slice(0, Math.max(0, colon));
  return TYPES.has(type) ? { type: type as ActorType, id: text.slice(colon + 1) } : { type: 'system', id: text };
}
