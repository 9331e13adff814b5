import type { AddressPolicy } from './address-policy.ts';
import type { Issue } from './errors.ts';
import { Issues } from './issues.ts';
import { suggestion } from './nearest-name.ts';
import { EVERY_EVENT, SUBSCRIBABLE } from './public-events.ts';
import { addUrlRefusal, FIELD_LIMITS, readText } from './submission-fields.ts';
import { readTargetUrl } from './target-url.ts';

export const WEBHOOK_LIMITS = { description: 256, events: 50, eventName: 64 } as const;

export type WebhookSubmission = {
  readonly url: string;
  readonly events: readonly string[];
  readonly description?: string | null;
};

/** Null clears the description; absent members stay. */
export type WebhookUpdate = Partial<WebhookSubmission> & { readonly enabled?: boolean };

/** A webhook as it is stored: with a normalized URL, and with its events sorted and distinct. */
export type CheckedWebhook = {
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string | null;
};

export type CheckedWebhookUpdate = Partial<CheckedWebhook> & { readonly enabled?: boolean };

type Checked<T> = { readonly ok: true; readonly webhook: T } | { readonly ok: false; readonly issues: readonly Issue[] };

export function checkWebhook(given: WebhookSubmission, addresses: AddressPolicy): Checked<CheckedWebhook> {
  return checkWebhookUpdate({ description: null, ...given }, addresses) as Checked<CheckedWebhook>;
}

export function checkWebhookUpdate(given: WebhookUpdate, addresses: AddressPolicy): Checked<CheckedWebhookUpdate> {
  const issues = new Issues();
  const { url, events, description, enabled } = given;
  const webhook: CheckedWebhookUpdate = {
    ...(url === undefined ? {} : { url: readWebhookUrl(url, addresses, issues) }),
    ...(events === undefined ? {} : { events: readEvents(events, issues) }),
    ...(description === undefined ? {} : { description: readDescription(description, issues) }),
    ...(enabled === undefined ? {} : { enabled }),
  };
  return issues.list.length === 0 ? { ok: true, webhook } : { ok: false, issues: issues.list };
}

function readWebhookUrl(text: string, addresses: AddressPolicy, issues: Issues): string {
  const read = readTargetUrl(text, addresses);
  if (!read.ok) {
    addUrlRefusal('url', read.refusal, issues);
    return '';
  }
  const { href } = read.target.url;
  if (href.length > FIELD_LIMITS.callbackUrl) {
    issues.add('url', 'TOO_LONG', `must have at most ${FIELD_LIMITS.callbackUrl} characters after percent-encoding`);
  }
  return href;
}

function readEvents(names: readonly string[], issues: Issues): readonly string[] {
  if (names.length === 0) issues.add('events', 'OUT_OF_RANGE', 'must contain at least one event, or "*" for all');
  for (const [index, name] of names.entries()) {
    if (issues.isFull) break;
    if ((SUBSCRIBABLE as readonly string[]).includes(name)) continue;
    issues.add(`events[${index}]`, 'UNKNOWN_EVENT', `must be one of ${SUBSCRIBABLE.join(', ')}${suggestion(name, SUBSCRIBABLE)}`);
  }
  return names.includes(EVERY_EVENT) ? [EVERY_EVENT] : [...new Set(names)].sort();
}

function readDescription(text: string | null, issues: Issues): string | null {
  if (text === null || text === '') return null;
  return readText(text, { field: 'description', max: WEBHOOK_LIMITS.description }, issues);
}
