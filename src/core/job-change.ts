import type { AddressPolicy } from './address-policy.ts';
import type { Issue } from './errors.ts';
import { suggestion } from './nearest-name.ts';
import { PRIORITIES, type Priority, priorityNumber } from './priority.ts';
import { FIELD_LIMITS, Issues, readTags, readText, readTypeName, readUrl, readWord } from './submission-fields.ts';
import { refuseReservedType } from './submission-members.ts';

/** What a caller may change of a job that has not ended. Null clears a member, absent members stay. */
export interface JobUpdate {
  readonly type?: string;
  readonly priority?: Priority;
  readonly tags?: Readonly<Record<string, string>> | null;
  readonly correlationId?: string | null;
  readonly callbackUrl?: string | null;
}

export interface CheckedUpdate {
  readonly type?: string;
  readonly priority?: number;
  readonly tags?: Readonly<Record<string, string>> | null;
  readonly correlationId?: string | null;
  readonly callbackUrl?: string | null;
}

const MEMBERS = ['type', 'priority', 'tags', 'correlationId', 'callbackUrl'] as const;

/** The five members of a job that stay open to change; everything else of it is read-only. */
export function checkUpdate(
  update: JobUpdate,
  { addresses }: { readonly addresses?: AddressPolicy } = {},
): { readonly ok: true; readonly change: CheckedUpdate } | { readonly ok: false; readonly issues: readonly Issue[] } {
  const issues = new Issues();
  for (const member of Object.keys(update)) {
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
