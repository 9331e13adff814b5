import { AppError } from '../errors.ts';
import { CATEGORY_NAMES, type Capability, capabilitiesOf } from './categories.ts';

/** What a handler wants to do, in the words of an error message. */
const DEEDS = {
  audit: 'append to the audit trail',
  artifacts: 'write artifacts',
  assignments: 'write assignments',
  jobs: 'spawn jobs',
} as const satisfies Record<Capability, string>;

/** Throws FORBIDDEN if handlers of jobs of this category may not do it. Null: the job has no category. */
export function requireCapability(category: string | null, capability: Capability, jobType: string): void {
  if (capabilitiesOf(category).includes(capability)) return;
  const allowed = CATEGORY_NAMES.filter((name) => capabilitiesOf(name).includes(capability));
  const whose = category === null ? 'a job without a category' : `a job of the category ${category}`;
  throw new AppError('FORBIDDEN', {
    message: `The handler of ${jobType} may not ${DEEDS[capability]}: it runs ${whose}. The categories that allow it are ${allowed.join(', ')}.`,
  });
}
