import { OPERATOR } from '../core/governance/actor.ts';
import type { Requester } from '../core/governance/audit-action.ts';

/** Who asks for what a command changes. Only operators can reach the database. */
export const OPERATOR_HERE: Requester = { actor: OPERATOR, requestId: null };
