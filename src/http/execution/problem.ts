import type { FastifyRequest } from 'fastify';
import { lookUp } from '../../core/dictionary.ts';
import type { AppError, Issue } from '../../core/errors.ts';
import type { DescribedRoute, ErrorResponse } from '../door.ts';
import { PROBLEMS, type ProblemCode, problemOf } from './problem-codes.ts';
import { type ProblemStatus, problemResponses } from './schemas/problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the answer says went wrong, for the log; null when nothing did. */
    problem: { readonly code: ProblemCode; readonly message: string } | null;
  }
}

const PROBLEM_TYPE = 'application/problem+json';

/** An error of the catalogue as problem details. */
export function respondProblem(error: AppError, request: FastifyRequest): ErrorResponse {
  const code = problemOf(error);
  const { status, title, action } = PROBLEMS[code];
  const said = sentence(error);
  request.problem = { code, message: said };
  return {
    status,
    contentType: PROBLEM_TYPE,
    headers: allowOf(error),
    body: {
      type: `${originOf(request)}/docs/errors/${code}`,
      title,
      status,
      detail: said.endsWith(action) ? said : `${said} ${action}`,
      instance: request.id,
      code,
      ...(error.details.length === 0 ? {} : { errors: error.details.map(inWords) }),
    },
  };
}

/** Messages of the catalogue are clauses; a detail is read as sentences. The name of a member stays as it is written. */
function sentence({ message, details }: AppError): string {
  const field = details[0]?.field;
  const isOfMember = field !== undefined && message.startsWith(field);
  const started = isOfMember ? message : message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(started) ? started : `${started}.`;
}

// What this door calls the members that a submission has for the core.
const MEMBERS: Readonly<Record<string, string>> = {
  idempotencyKey: 'idempotency_key',
  scheduledAt: 'execution_at',
  callbackUrl: 'callback',
};

const inWords = ({ field, ...issue }: Issue): Issue => ({ field: lookUp(MEMBERS, field) ?? field, ...issue });

const HOST = /^[\w.-]+(?::\d{1,5})?$|^\[[0-9a-fA-F:.]+\](?::\d{1,5})?$/;

/** Where the caller reached this server; nothing, and so a relative address, when it did not say in a way fit to repeat. */
function originOf(request: FastifyRequest): string {
  const { host } = request;
  return host !== undefined && HOST.test(host) ? `${request.protocol}://${host}` : '';
}

const allowed = new WeakMap<AppError, string>();

/** Notes the methods that a path does have, for the answer to one that it has not. */
export function allowing(error: AppError, methods: readonly string[]): AppError {
  allowed.set(error, methods.join(', '));
  return error;
}

function allowOf(error: AppError): Record<string, string> {
  const methods = allowed.get(error);
  return methods === undefined ? {} : { allow: methods };
}

/** What any route of the door may answer. Those with a body may also be told that it is no good. */
export function problemsOf({ method, schema, config }: DescribedRoute): Record<number, unknown> {
  const statuses: ProblemStatus[] = [
    400,
    ...(config.scopes === undefined ? [] : ([401, 403] as const)),
    ...(schema.params === undefined ? [] : ([404] as const)),
    406,
    ...(method === 'GET' ? [] : ([413, 415] as const)),
    ...(config.isProbe === true ? [] : ([429] as const)),
    500,
    503,
    504,
  ];
  return problemResponses(...statuses);
}
