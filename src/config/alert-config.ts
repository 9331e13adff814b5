import type { Issue } from '../core/errors.ts';
import { type Assembly, invalidConfig } from './assemble.ts';

export type AlertConfig = {
  /** Null: alerts are not sent. */
  readonly webhook: { readonly url: string; readonly secret: string | null } | null;
  readonly retentionMs: number;
};

export function alertConfig({ entries }: Assembly): AlertConfig {
  const url = (entries.get('alerts.webhook_url')?.value ?? null) as string | null;
  const secret = (entries.get('alerts.webhook_secret')?.value ?? null) as string | null;
  if (url !== null && !isWebUrl(url)) throw invalidConfig([NO_URL]);
  const retentionMs = entries.get('retention.alerts')?.value as number;
  return { webhook: url === null ? null : { url, secret }, retentionMs };
}

const isWebUrl = (text: string): boolean => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

/** It does not show the value, which may contain a token. */
const NO_URL: Issue = {
  field: 'alerts.webhook_url',
  code: 'INVALID_VALUE',
  message: 'alerts.webhook_url must be a URL that begins with https:// or http://',
};
