import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
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

/** One contract: its routes below a prefix, and its own way of saying what went wrong. */
export type Door = {
  readonly prefix: string;
  /** The tag of its operations in the OpenAPI document. */
  readonly tag: string;
  readonly description: string;
  register(http: Http, engine: Engine): void | Promise<void>;
  /** The body of an error answer. */
  render(error: AppError, requestId: string): unknown;
};
