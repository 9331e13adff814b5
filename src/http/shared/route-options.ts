import type { FastifyRequest } from 'fastify';
import type { Scope } from './identity.ts';

/** The scopes that the caller's key must have. */
export const needs = (...scopes: Scope[]) => ({ config: { scopes } });

/** For requests whose members are all optional: no body counts as an empty one. */
export const bodyMayBeAbsent = {
  preValidation: async (request: FastifyRequest): Promise<void> => {
    request.body ??= {};
  },
};

/** For bodies that the service validates member by member. The schema only documents them, and a test compares the two. */
export const judgedByService = { validatorCompiler: () => () => true };
