import { OPERATOR } from '../../core/governance/actor.ts';
import type { Requester } from '../../core/governance/audit-action.ts';

/** Who uses the program itself: somebody with the credentials of the database. */
export const AT_CONSOLE: Requester = Object.freeze({ actor: OPERATOR, requestId: null });
