import { AppError } from '../core/errors.ts';
import { type Policy, PROFILES } from '../core/policy.ts';
import type { RegisteredHandler } from './registry.ts';

// A job that was started belongs to whoever started it until its attempt ends, also where it cannot run. So it gets an attempt
// that fails and says why: what comes next is decided as for any other failure, and seen in its history.

export const refusing = (type: string, error: Error): RegisteredHandler => ({
  ...{ type, layer: { hasCustomBackoff: false }, concurrency: null, customBackoff: undefined, schema: undefined },
  ...{ fanIn: false, handler: () => Promise.reject(error) },
});

export const unserved = (type: string): RegisteredHandler =>
  refusing(
    type,
    new AppError('UNKNOWN_TYPE', { message: `Claimed a job of type ${type}, which no handler here serves.` }),
  );

/** Decides the end of a job whose own policy cannot be read. */
export const STAND_IN: Policy = PROFILES.gopherqueue;
