import type { Issue } from './errors.ts';

/** The org does not have the project that a submission or a key names. */
export const unknownProject = (field: string): Issue => ({
  field,
  code: 'UNKNOWN_PROJECT',
  message: `${field} must be the id of a project of the org: create the project first`,
});
