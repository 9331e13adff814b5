import { hash } from 'node:crypto';
import { isSameSecret } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import type { ExecutionSettings } from '../../core/execution/settings.ts';

/** Where registration needs a token, lets only those pass who have it. */
export function requireRegistration(
  { registration, bootstrapToken }: Pick<ExecutionSettings, 'registration' | 'bootstrapToken'>,
  given: string | undefined,
): void {
  if (registration === 'open') return;
  if (bootstrapToken === null) {
    throw new AppError('UNAVAILABLE', {
      message: 'Registration needs a token, and none is configured. Set auth.bootstrap_token.',
      problem: 'RFA_CONFIG_INVALID',
    });
  }
  if (given !== undefined && isSameSecret(digestOf(given), digestOf(bootstrapToken))) return;
  const message = 'Registration needs the token of this server: send it as "X-Bootstrap-Token".';
  const code = given === undefined ? 'MISSING' : 'UNKNOWN';
  throw new AppError('UNAUTHORIZED', { message, details: [{ field: 'x-bootstrap-token', code, message }] });
}

const digestOf = (text: string): Uint8Array => hash('sha256', text, 'buffer');
