import type { FastifyRequest } from 'fastify';
import { lookUp } from '../../core/dictionary.ts';
import type { AppError, Issue } from '../../core/errors.ts';
import type { DescribedRoute, ErrorResponse } from '../door.ts';
import { PROBLEMS, problemOf } from './problem-codes.ts';
import { type ProblemStatus, problemResponses } from './schemas/problem.ts';

const PROBLEM_TYPE = 'application/problem+json';

/** Renders an error as problem details (RFC 9457). */
export function respondProblem(error: AppError, request: FastifyRequest): ErrorResponse {
  const code = problemOf(error);
  const { status, title, action } = PROBLEMS[code];
  const message = sentence(error);
  request.problem = { code, message };
  return {
    status,
    contentType: PROBLEM_TYPE,
    headers: allowOf(error),
    body: {
      type: `${code === 'RFA_REQUEST_UNKNOWN_HOST' ? '' : originOf(request)}/docs/errors/${code}`,
      title,
      status,
      detail: message.endsWith(action) ? message : `${message} ${action}`,
      instance: request.id,
      code,
      ...(error.details.length === 0 ? {} : { errors: error.details.map(withOwnNames) }),
    },
  };
}

/** Error messages can be clauses; a detail is made of sentences. The name of a member keeps its case. */
function sentence({ message, details }: AppError): string {
  const field = details[0]?.field;
  const isOfMember = field !== undefined && message.startsWith(field);
  const started = isOfMember ? message : message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(started) ? started : `${started}.`;
}

// The names of this API for members that the core names differently.
const MEMBERS: Readonly<Record<string, string>> = {
  idempotencyKey: 'idempotency_key',
  scheduledAt: 'execution_at',
  callbackUrl: 'callback',
};

const withOwnNames = ({ field, ...issue }: Issue): Issue => ({ field: lookUp(MEMBERS, field) ?? field, ...issue });

const HOST = /^[\w.-]+(?::\d{1,5})?$|^\[[0-9a-fA-F:.]+\](?::\d{1,5})?$/;

/** The origin that the caller used. Empty, and so a relative URL, if the Host header is not well formed. */
function originOf(request: FastifyRequest): string {
  const { host } = request;
  return host !== undefined && HOST.test(host) ? `${request.protocol}://${host}` : '';
}

const allowed = new WeakMap<AppError, string>();

/** Attaches the methods of a path to the error for a method that it does not have. */
export function allowing(error: AppError, methods: readonly string[]): AppError {
  allowed.set(error, methods.join(', '));
  return error;
}

function allowOf(error: AppError): Record<string, string> {
  const methods = allowed.get(error);
  return methods === undefined ? {} : { allow: methods };
}

/** The error responses that every route of the door can have. */
export function problemsOf({ method, schema, config }: DescribedRoute): Record<number, unknown> {
  const statuses: ProblemStatus[] = [
    400,
    ...(config.scopes === undefined ? [] : ([401] as const)),
    403,
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
