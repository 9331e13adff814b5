import type { AddressPolicy } from './address-policy.ts';
import type { Issue } from './errors.ts';
import { Issues } from './issues.ts';
import { isRecord } from './known-members.ts';
import { suggestion } from './nearest-name.ts';
import { PRIORITIES, type Priority, priorityNumber } from './priority.ts';
import { FIELD_LIMITS, readTags, readText, readTypeName, readUrl, readWord } from './submission-fields.ts';
import { refuseReservedType } from './submission-members.ts';

/** The members of a job that can change until it ends. Null clears a member; absent members stay. */
export interface JobUpdate {
  readonly type?: string;
  readonly priority?: Priority;
  readonly tags?: Readonly<Record<string, string>> | null;
  readonly correlationId?: string | null;
  readonly callbackUrl?: string | null;
}

export type CheckedUpdate = Omit<JobUpdate, 'priority'> & { readonly priority?: number };

const MEMBERS = ['type', 'priority', 'tags', 'correlationId', 'callbackUrl'] as const;

export function checkUpdate(
  update: JobUpdate,
  { addresses }: { readonly addresses?: AddressPolicy } = {},
): { readonly ok: true; readonly change: CheckedUpdate } | { readonly ok: false; readonly issues: readonly Issue[] } {
  const issues = new Issues();
  if (!isRecord(update)) {
    issues.add('update', 'INVALID_TYPE', 'must be an object');
    return { ok: false, issues: issues.list };
  }
  for (const member of Object.keys(update)) {
    if (issues.isFull) break;
    if (MEMBERS.includes(member as (typeof MEMBERS)[number])) continue;
    issues.add(member, 'UNKNOWN_MEMBER', `cannot be changed${suggestion(member, MEMBERS)}`);
  }
  const { type, priority, tags, correlationId, callbackUrl } = update;
  refuseReservedType(type, '', issues);
  const word = priority === undefined ? null : readWord(priority, { field: 'priority', words: PRIORITIES }, issues);
  const label = { field: 'correlationId', max: FIELD_LIMITS.correlationId };
  const change: CheckedUpdate = {
    type: type === undefined ? undefined : (readTypeName(type, issues) ?? undefined),
    priority: word === null ? undefined : priorityNumber(word),
    tags: tags == null ? tags : readTags(tags, issues),
    correlationId: correlationId == null ? correlationId : readText(correlationId, label, issues),
    callbackUrl: callbackUrl == null ? callbackUrl : readUrl(callbackUrl, { field: 'callbackUrl', addresses }, issues),
  };
  return issues.list.length === 0 ? { ok: true, change } : { ok: false, issues: issues.list };
}
