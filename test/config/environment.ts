/** Settings from the environment alone. */
import { tmpdir } from 'node:os';
import { type Config, loadConfig } from '../../src/config/load-config.ts';
import { AppError } from '../../src/core/errors.ts';

type Environment = Readonly<Record<string, string>>;

export const configOf = (environment: Environment = {}): Config => loadConfig({ environment, folder: tmpdir() }).config;

/** What is said to somebody who sets this. */
export function refusal(environment: Environment): string {
  try {
    configOf(environment);
  } catch (error) {
    if (error instanceof AppError && error.code === 'INVALID_CONFIG') return error.message;
    throw error;
  }
  throw new Error('It was accepted.');
}
