import type { FastifyRequest } from 'fastify';
import { AppError } from '../../core/errors.ts';
import type { Http } from '../door.ts';
import { allowing } from './problem.ts';

type Path = { readonly parts: readonly string[]; readonly methods: Set<string> };

/**
 * Responds to a wrong method on an existing path with 405 and the allowed methods. It does so before the body is read, so
 * that the error is never about the body.
 */
export function installMethods(http: Http): void {
  const paths = new Map<string, Path>();
  http.addHook('onRoute', ({ url, method }) => {
    const path = paths.get(url) ?? { parts: partsOf(url), methods: new Set() };
    for (const each of [method].flat()) path.methods.add(each.toUpperCase());
    paths.set(url, path);
  });
  http.addHook('onRequest', (request, _reply, done) => {
    done(request.is404 ? noSuchRoute(request, [...paths.values()]) : undefined);
  });
  // Without a handler of this scope, its hooks do not run for unknown paths.
  http.setNotFoundHandler(async (request) => {
    throw noSuchRoute(request, [...paths.values()]);
  });
}

/** Ignores a slash at the end, as the router does. */
const partsOf = (url: string): string[] => url.replace(/(?<=.)\/$/, '').split('/');

function noSuchRoute({ url, method }: FastifyRequest, paths: readonly Path[]): AppError {
  const address = url.split('?', 1)[0] as string;
  const parts = partsOf(address);
  const methods = paths.filter((path) => fits(path.parts, parts)).flatMap((path) => [...path.methods]);
  if (methods.length === 0) {
    return new AppError('NOT_FOUND', { message: `There is no ${method} ${address.slice(0, 200)}.` });
  }
  const message = `${address.slice(0, 200)} does not support ${method}, only ${methods.join(', ')}.`;
  return allowing(new AppError('INVALID_REQUEST', { message, problem: 'RFA_REQUEST_METHOD_NOT_ALLOWED' }), methods);
}

const fits = (wanted: readonly string[], parts: readonly string[]): boolean =>
  wanted.length === parts.length && wanted.every((part, index) => part.startsWith(':') || part === parts[index]);
