import { hash } from 'node:crypto';
import { isSameSecret } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import type { ExecutionSettings } from '../../core/execution/settings.ts';
import { isUuid } from '../../core/ids.ts';
import { findClient } from '../../ledger/access/clients.ts';
import type { Caller, ExecutionContext } from './context.ts';

/** A key can act only for its own client. */
export async function requireOwnClient({ engine }: ExecutionContext, caller: Caller, clientId: string): Promise<void> {
  if (caller.clientId === clientId.toLowerCase()) return;
  const client = isUuid(clientId) ? await findClient(engine.database.api, clientId) : null;
  throw client === null ? noSuchClient(clientId) : refused('FORBIDDEN', 'FOREIGN', 'The API key belongs to another client.');
}

/** Checks the bootstrap token, if registration requires one. */
export function requireRegistration(
  { registration, bootstrapToken }: Pick<ExecutionSettings, 'registration' | 'bootstrapToken'>,
  given: string | undefined,
): void {
  if (registration === 'open') return;
  if (bootstrapToken === null) {
    throw new AppError('UNAVAILABLE', {
      message: 'Registration requires a token, but none is configured. Set auth.bootstrap_token.',
      problem: 'RFA_CONFIG_INVALID',
    });
  }
  if (given !== undefined && isSameSecret(digestOf(given), digestOf(bootstrapToken))) return;
  const message = 'Registration requires the bootstrap token of this server: send it as "X-Bootstrap-Token".';
  const code = given === undefined ? 'MISSING' : 'UNKNOWN';
  throw new AppError('UNAUTHORIZED', { message, details: [{ field: 'x-bootstrap-token', code, message }] });
}

const digestOf = (text: string): Uint8Array => hash('sha256', text, 'buffer');

export const noSuchClient = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Client ${id.slice(0, 100)} does not exist.`,
    problem: 'RFA_CLIENT_NOT_FOUND',
  });

export const noSuchKey = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `Key ${id.slice(0, 100)} does not exist.`, problem: 'RFA_KEY_NOT_FOUND' });

export const keyConflict = (message: string): AppError => new AppError('CONFLICT', { message, problem: 'RFA_KEY_CONFLICT' });

export const missingKey = (): AppError =>
  refused('UNAUTHORIZED', 'MISSING', 'An API key of the client is required: send it as "Authorization: Bearer mr_...".');

export const endedKey = (reason: 'REVOKED' | 'EXPIRED'): AppError =>
  reason === 'REVOKED'
    ? refused('FORBIDDEN', reason, 'The API key was revoked.')
    : refused('UNAUTHORIZED', reason, 'The API key has expired.');

function refused(code: 'UNAUTHORIZED' | 'FORBIDDEN', reason: string, message: string): AppError {
  return new AppError(code, { message, details: [{ field: 'authorization', code: reason, message }] });
}

/** Logs a request for a job or webhook of another client, and returns the error for it. */
export function foreignResource(
  { telemetry }: ExecutionContext,
  { requestId, clientId }: Caller,
  { kind, id }: { kind: 'job' | 'webhook'; id: string },
): AppError {
  const reason = `the ${kind} belongs to another client`;
  telemetry.log.warn('access refused', { request_id: requestId, client_id: clientId, [`${kind}_id`]: id, reason });
  const name = kind === 'job' ? 'Job' : 'Webhook';
  return new AppError('FORBIDDEN', {
    message: `${name} ${id} belongs to another client.`,
    problem: 'RFA_AUTH_FORBIDDEN',
  });
}
