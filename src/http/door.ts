import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyContextConfig, FastifyInstance, FastifyRequest, FastifySchema, RawServerDefault } from 'fastify';
import type { AppError } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';

/** A Fastify server whose routes take their types from TypeBox schemas. */
export type Http = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

/** An error response of a door. */
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

/** One API: its routes below a prefix, and its own form of errors. */
export type Door = {
  readonly prefix: string;
  /** The tag of its operations in the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  /** The door never sends an interim status (1xx). */
  readonly isFinalOnly?: boolean;
  /** The requests that the door sends, for the OpenAPI document. */
  readonly webhooks?: Readonly<Record<string, unknown>>;
  register(http: Http, engine: Engine): void | Promise<void>;
  /** Returns the body of an error response. */
  render(error: AppError, requestId: string): unknown;
  /** Returns the whole error response, for a door with its own statuses and media type. */
  respond?(error: AppError, request: FastifyRequest): ErrorResponse;
  /** The error responses of every route, for the OpenAPI document. A route can override them. */
  errorResponses?(route: DescribedRoute): Record<number, unknown>;
};
