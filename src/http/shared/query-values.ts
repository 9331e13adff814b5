import type { FastifyRequest } from 'fastify';
import { invalidRequest } from '../../core/errors.ts';
import { parseTimestamp } from '../../core/timestamp.ts';
import type { Http } from '../door.ts';

type MemberSchema = { type?: string | string[]; anyOf?: MemberSchema[]; items?: MemberSchema; const?: unknown };
type Reader = { name: string; isList: boolean; types: ReadonlySet<string> };

/**
 * Converts query parameters to the numbers, booleans and lists that the schema of the route declares, before validation. Text
 * that does not convert stays text, so that validation reports it. Bodies are never converted.
 */
export function installQueryValues(http: Http): void {
  http.addHook('onRoute', (route) => {
    const schema = route.schema?.querystring as { properties?: Record<string, MemberSchema> } | undefined;
    const readers = Object.entries(schema?.properties ?? {}).flatMap(([name, member]) => readerOf(name, member));
    if (readers.length === 0) return;
    const convert = async (request: FastifyRequest) => {
      const query = request.query as Record<string, unknown>;
      for (const reader of readers) if (Object.hasOwn(query, reader.name)) query[reader.name] = read(query[reader.name], reader);
    };
    route.preValidation = [convert, ...[route.preValidation ?? []].flat()];
  });
}

const NO_PARAMETERS = { type: 'object', properties: {}, additionalProperties: false } as const;

/** Routes of this scope that declare no parameters accept none: `?dry_run=true` must not be ignored where it means nothing. */
export function refuseUndeclaredQueries(http: Http): void {
  http.addHook('onRoute', (route) => {
    if (route.schema?.querystring === undefined) route.schema = { ...route.schema, querystring: NO_PARAMETERS };
  });
}

function readerOf(name: string, member: MemberSchema): Reader[] {
  const isList = typesOf(member).has('array');
  const types = typesOf((isList ? itemsOf(member) : member) ?? {});
  const isText = !types.has('integer') && !types.has('number') && !types.has('boolean');
  return isText && !isList ? [] : [{ name, isList, types }];
}

const typesOf = (member: MemberSchema): Set<string> =>
  new Set([...[member.type ?? []].flat(), ...(member.anyOf ?? []).flatMap((each) => [...typesOf(each)])]);

const itemsOf = (member: MemberSchema): MemberSchema | undefined =>
  member.items ?? member.anyOf?.find((each) => each.items !== undefined)?.items;

/** `a=1&a=2` and `a=1,2` are the same list. */
function read(given: unknown, { isList, types }: Reader): unknown {
  if (!isList) return typeof given === 'string' ? readOne(given, types) : given;
  const texts = Array.isArray(given) ? given : String(given).split(',');
  return texts.map((text) => (typeof text === 'string' ? readOne(text, types) : text));
}

function readOne(text: string, types: ReadonlySet<string>): unknown {
  if (types.has('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  const isNumber = /^-?\d{1,15}$/.test(text) || (types.has('number') && /^-?\d{1,15}\.\d{1,15}$/.test(text));
  return isNumber && (types.has('integer') || types.has('number')) ? Number(text) : text;
}

/** A time in a query. Null: it is absent. */
export function readTime(text: string | undefined, field: string): Date | null {
  if (text === undefined) return null;
  const read = parseTimestamp(text);
  if (read.ok) return read.date;
  throw invalidRequest({ field, code: 'INVALID_VALUE', message: `${field} is not a time: ${read.message}` });
}
