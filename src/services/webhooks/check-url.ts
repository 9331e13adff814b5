import { addUrlRefusal, Issues } from '../../core/submission-fields.ts';
import type { UrlGuard } from '../../core/target-url.ts';
import { invalidWebhook } from './webhook-errors.ts';

/** Refuses a URL whose name leads where nothing may be sent. A name that leads nowhere yet is taken. */
export async function requireReachableUrl(guard: UrlGuard, url: string): Promise<void> {
  const refusal = await guard.check(url);
  if (refusal === null) return;
  const issues = new Issues();
  addUrlRefusal('url', refusal, issues);
  throw invalidWebhook(issues.list);
}
