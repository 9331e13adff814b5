import { AppError, type Issue } from './errors.ts';

/** Thrown by `register` for a registration that cannot be used. It changed nothing. `details` lists every problem. */
export class RegistrationError extends AppError {
  /** The job type of the registration, or an empty string if that is wrong too. */
  readonly type: string;
  /** Tells it from the status of a registration that was accepted. */
  readonly status = 'INVALID';
  /** Whether the type has a handler from an earlier registration. It stays in use. */
  readonly previous: boolean;

  constructor({ type, previous, issues }: { type: string; previous: boolean; issues: readonly Issue[] }) {
    const reasons = issues.map(({ message }) => message).join('; ');
    const message = `The handler of "${type}" cannot be registered: ${reasons}. Correct it and start again.`;
    super('INVALID_HANDLER', { message, details: issues });
    this.name = 'RegistrationError';
    this.type = type;
    this.previous = previous;
  }
}
