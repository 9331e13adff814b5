import { DELIVERY_PROFILE, DELIVERY_TYPE } from './delivery-policy.ts';
import type { Issue } from './errors.ts';
import { suggestion } from './nearest-name.ts';
import type { Issues } from './submission-fields.ts';

const KNOWN_MEMBERS = new Set([
  'type',
  'payload',
  'priority',
  'delay',
  'scheduledAt',
  'timeout',
  'maxAttempts',
  'backoff',
  'idempotencyKey',
  'correlationId',
  'tags',
  'dependsOn',
  'dependencyType',
  'callbackUrl',
  'queue',
  'category',
  'projectId',
  'traceparent',
]);

// Read-only on a job, in the spelling of the library and of the wire.
const SYSTEM_MEMBERS = new Set([
  'id',
  'jobId',
  'job_id',
  'state',
  'attempt',
  'createdAt',
  'created_at',
  'updatedAt',
  'updated_at',
  'startedAt',
  'started_at',
  'completedAt',
  'completed_at',
]);

/** Refuses what no submission has, by name and with the nearest known name. */
export function refuseUnknownMembers(submission: object, issues: Issues): void {
  for (const member of Object.keys(submission)) {
    if (KNOWN_MEMBERS.has(member)) continue;
    if (SYSTEM_MEMBERS.has(member)) {
      issues.add(member, 'READ_ONLY_MEMBER', 'cannot be given: the system assigns it');
    } else {
      issues.add(member, 'UNKNOWN_MEMBER', `is not known${suggestion(member, KNOWN_MEMBERS)}`);
    }
  }
}

/** Types whose jobs only one part of the system makes, by the profile they come with: payload and policy are its own. */
const RESERVED_TYPES = [
  { prefix: 'forgerun.', profile: 'forgerun', owner: 'the execution API' },
  { prefix: DELIVERY_TYPE, profile: DELIVERY_PROFILE, owner: 'events that are delivered' },
] as const;

export function refuseReservedType(type: unknown, profile: string, issues: Issues): void {
  if (typeof type !== 'string') return;
  for (const { prefix, profile: own, owner } of RESERVED_TYPES) {
    if (profile === own || !type.startsWith(prefix)) continue;
    issues.add('type', 'RESERVED_TYPE', `must not begin with ${prefix}: such jobs come from ${owner}`);
  }
}

export const RESERVED_PREFIXES: readonly string[] = RESERVED_TYPES.map(({ prefix }) => prefix);

export const isReserved = (type: string): boolean => RESERVED_PREFIXES.some((prefix) => type.startsWith(prefix));

/** Why a member of a job of a reserved type stays as it is: whoever made the job reads it by its type, priority and tags. */
export function reservedMember(field: string, type: string): Issue {
  const owner = RESERVED_TYPES.find(({ prefix }) => type.startsWith(prefix))?.owner ?? 'another part of the system';
  const message = `${field} cannot be changed: jobs of the type ${type} come from ${owner}. Leave ${field} out, or cancel the job and submit another one there.`;
  return { field, code: 'RESERVED_TYPE', message };
}
