import { AppError } from '../../core/errors.ts';

export const noSuchClient = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Client ${id.slice(0, 100)} does not exist.`,
    problem: 'RFA_CLIENT_NOT_FOUND',
  });

export const noSuchKey = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `Key ${id.slice(0, 100)} does not exist.`, problem: 'RFA_KEY_NOT_FOUND' });

export const keyConflict = (message: string): AppError =>
  new AppError('CONFLICT', { message, problem: 'RFA_KEY_CONFLICT' });

export const foreignClient = (): AppError => refused('FORBIDDEN', 'FOREIGN', 'The API key is of another client.');

export const missingKey = (): AppError =>
  refused('UNAUTHORIZED', 'MISSING', 'An API key of the client is needed: send it as "Authorization: Bearer mr_...".');

export const endedKey = (reason: 'REVOKED' | 'EXPIRED'): AppError =>
  reason === 'REVOKED'
    ? refused('FORBIDDEN', reason, 'The API key was revoked.')
    : refused('UNAUTHORIZED', reason, 'The API key has expired.');

function refused(code: 'UNAUTHORIZED' | 'FORBIDDEN', reason: string, message: string): AppError {
  return new AppError(code, { message, details: [{ field: 'authorization', code: reason, message }] });
}
