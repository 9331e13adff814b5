import { invalidRequest } from '../../core/errors.ts';

const SLUG = /^[a-z0-9][a-z0-9._-]{0,99}$/;
const RESERVED = 'millrace.';

/** Throws INVALID_REQUEST if the text cannot name an org. `field` is the word of the door: `name` or `slug`. */
export function checkOrgName(slug: string, field = 'slug'): void {
  if (!SLUG.test(slug)) {
    const message = `a ${field} must have 1 to 100 lower-case letters, digits, dots, dashes and underscores, and start with a letter or a digit`;
    throw invalidRequest({ field, code: field === 'slug' ? 'INVALID_SLUG' : 'INVALID_NAME', message });
  }
  if (slug.startsWith(RESERVED)) {
    const message = `a ${field} must not start with ${RESERVED}, which is reserved for the system`;
    throw invalidRequest({ field, code: field === 'slug' ? 'RESERVED_SLUG' : 'RESERVED_NAME', message });
  }
}
