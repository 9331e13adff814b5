import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyContextConfig,
  FastifyInstance,
  FastifyRequest,
  FastifySchema,
  RawServerDefault,
} from 'fastify';
import type { AppError } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';

/** A Fastify whose routes take their types from TypeBox schemas. */
export type Http = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** An error answer as a door gives it. */
export type ErrorResponse = {
  readonly status: number;
  readonly contentType: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
};

export type DescribedRoute = {
  readonly method: string;
  readonly schema: FastifySchema;
  readonly config: FastifyContextConfig;
};

/** One contract: its routes below a prefix, and its own way of saying what went wrong. */
export type Door = {
  readonly prefix: string;
  /** The tag of its operations in the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  /** Never answers with an interim status (1xx). */
  readonly isFinalOnly?: boolean;
  /** The requests that it makes itself, for the document. */
  readonly webhooks?: Readonly<Record<string, unknown>>;
  register(http: Http, engine: Engine): void | Promise<void>;
  /** The body of an error answer. */
  render(error: AppError, requestId: string): unknown;
  /** The whole of an error answer, where a door has statuses and a media type of its own. */
  respond?(error: AppError, request: FastifyRequest): ErrorResponse;
  /** The error answers that any of its routes may give, for the document; the route's own words win. */
  errorResponses?(route: DescribedRoute): Record<number, unknown>;
};
