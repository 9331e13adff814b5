import { AppError } from '../../core/errors.ts';
import { type Policy, PROFILES } from '../../core/policy.ts';
import type { RegisteredHandler } from './registry.ts';

// A job that was started belongs to whoever started it until its attempt ends, also where it cannot run. So it gets an attempt
// that fails and says why: what comes next is decided as for any other failure, and seen in its history.

const refusing = (type: string, error: Error): RegisteredHandler => ({
  ...{ type, layer: { hasCustomBackoff: false }, concurrency: null, customBackoff: undefined, schema: undefined },
  ...{ fanIn: false, handler: () => Promise.reject(error) },
});

const unserved = (type: string): RegisteredHandler =>
  refusing(
    type,
    new AppError('UNKNOWN_TYPE', { message: `Claimed a job of type ${type}, which no handler here serves.` }),
  );

/** Decides the end of a job whose own policy cannot be read. */
const STAND_IN: Policy = PROFILES.gopherqueue;

/** What runs a job under the policy that was found, or stands in for what was not. */
export const runnableOf = (
  type: string,
  { policy, registered }: { policy: Policy | Error; registered: RegisteredHandler | undefined },
): { policy: Policy; registered: RegisteredHandler } =>
  policy instanceof Error
    ? { policy: STAND_IN, registered: refusing(type, policy) }
    : { policy, registered: registered ?? unserved(type) };
