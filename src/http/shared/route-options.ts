import type { FastifyRequest } from 'fastify';
import type { Scope } from './identity.ts';

/** The scopes that the caller's key must have. */
export const needs = (...scopes: Scope[]) => ({ config: { scopes } });

/** Like `needs`, for an operation that concerns all projects of the org. A key of one project is refused. */
export const needsOrg = (...scopes: Scope[]) => ({ config: { scopes, isForWholeOrg: true } });

/** For requests whose members are all optional: no body counts as an empty one. */
export const bodyMayBeAbsent = {
  preValidation: async (request: FastifyRequest): Promise<void> => {
    request.body ??= {};
  },
};

/** For bodies that the service validates member by member. The schema only documents them, and a test compares the two. */
export const judgedByService = { validatorCompiler: () => () => true };
