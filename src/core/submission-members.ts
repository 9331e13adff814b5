import { DELIVERY_PROFILE, DELIVERY_TYPE } from './delivery-policy.ts';
import type { Issue } from './errors.ts';
import { INGEST_PROFILE } from './ingest/policy.ts';
import type { Issues } from './issues.ts';
import { MAINTENANCE_POLICY, MAINTENANCE_TYPE } from './maintenance.ts';
import { suggestion } from './nearest-name.ts';

const KNOWN_MEMBERS = new Set([
  'type',
  'payload',
  'priority',
  'delay',
  'scheduledAt',
  'timeout',
  'lifetime',
  'maxAttempts',
  'backoff',
  'idempotencyKey',
  'correlationId',
  'tags',
  'dependsOn',
  'dependencyType',
  'callbackUrl',
  'queue',
  'limit',
  'unique',
  'debounce',
  'category',
  'projectId',
  'traceparent',
]);

// Members of a job that the system assigns, as the library and the HTTP API spell them.
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

export function refuseUnknownMembers(submission: object, issues: Issues): void {
  for (const member of Object.keys(submission)) {
    if (issues.isFull) return;
    if (KNOWN_MEMBERS.has(member)) continue;
    if (SYSTEM_MEMBERS.has(member)) {
      issues.add(member, 'READ_ONLY_MEMBER', 'cannot be set: the system assigns it');
    } else {
      issues.add(member, 'UNKNOWN_MEMBER', `is not known${suggestion(member, KNOWN_MEMBERS)}`);
    }
  }
}

/** Job types that only one part of the system may submit. It submits them with this profile. */
const RESERVED_TYPES = [
  { prefix: 'forgerun.', profile: 'forgerun', owner: 'the execution API' },
  { prefix: 'fetchbox.', profile: INGEST_PROFILE, owner: 'the ingest API' },
  { prefix: DELIVERY_TYPE, profile: DELIVERY_PROFILE, owner: 'webhook deliveries' },
  { prefix: MAINTENANCE_TYPE, profile: MAINTENANCE_POLICY.profile, owner: 'maintenance' },
] as const;

export function refuseReservedType(type: unknown, profile: string, issues: Issues): void {
  if (typeof type !== 'string') return;
  for (const { prefix, profile: own, owner } of RESERVED_TYPES) {
    if (profile === own || !type.startsWith(prefix)) continue;
    issues.add('type', 'RESERVED_TYPE', `must not begin with ${prefix}: that prefix is reserved for ${owner}`);
  }
}

export const RESERVED_PREFIXES: readonly string[] = RESERVED_TYPES.map(({ prefix }) => prefix);

export const isReserved = (type: string): boolean => RESERVED_PREFIXES.some((prefix) => type.startsWith(prefix));

/** The issue for a change of a reserved job: its owner finds it by its type, priority and tags. */
export function reservedMember(field: string, type: string): Issue {
  const owner = RESERVED_TYPES.find(({ prefix }) => type.startsWith(prefix))?.owner ?? 'the system';
  const message = `${field} cannot be changed: the job type ${type} is reserved for ${owner}. Leave ${field} out, or cancel the job and submit a new one.`;
  return { field, code: 'RESERVED_TYPE', message };
}
