import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { LoopService } from '../../engine/loop.ts';
import {
  type AlertToSend,
  noteAlertNotified,
  notifyAlertLater,
  takeAlertsToAnnounce,
  takeAlertsToNotify,
} from '../../ledger/alerts/announce-alerts.ts';
import type { Alert } from '../../ledger/alerts/list-alerts.ts';

/** A message about an alert. */
export type AlertMessage = { readonly id: string; readonly timestampSeconds: number; readonly body: Uint8Array };

export type AnnouncerParams = {
  readonly engine: Pick<Engine, 'database' | 'events'>;
  /** Writes the log line and counts the metric. */
  announce(alert: Alert): void;
  /** Sends a message to the webhook. Returns whether it was accepted. Null: no webhook is configured. */
  readonly send: ((message: AlertMessage) => Promise<boolean>) | null;
};

const EVERY_MS = 1_000;
const AT_ONCE = 100;
/** Longer than a request takes. After that another process sends the alert. */
const SENDING_MS = 60_000;
const MAX_TRIES = 6;

/**
 * Announces new alerts: to the log, as a metric and to a webhook. Every process has one. Each alert is announced by one of them, and is sent
 * until the webhook accepts it or six requests have failed.
 */
export class Announcer extends LoopService {
  readonly #params: AnnouncerParams;

  constructor(params: AnnouncerParams) {
    super({ name: 'announcer', events: params.engine.events });
    this.#params = params;
  }

  async round(): Promise<number> {
    const { engine, announce, send } = this.#params;
    const { maintenance } = engine.database;
    const fresh = await takeAlertsToAnnounce(maintenance, AT_ONCE);
    for (const alert of fresh) announce(alert);
    const sent = send === null ? [] : await takeAlertsToNotify(maintenance, { limit: AT_ONCE, forMs: SENDING_MS, maxTries: MAX_TRIES });
    for (const alert of sent) await this.#send(alert);
    return fresh.length === AT_ONCE || sent.length === AT_ONCE ? 0 : EVERY_MS;
  }

  async #send(alert: AlertToSend): Promise<void> {
    const { engine, send } = this.#params;
    const { maintenance } = engine.database;
    // The id stays the same over all tries, so that the receiver can drop repeats.
    const message = { id: `alert_${alert.id}`, timestampSeconds: Math.floor(Date.now() / 1_000), body: bodyOf(alert) };
    if (await send?.(message)) await noteAlertNotified(maintenance, alert.id);
    else await notifyAlertLater(maintenance, alert.id, pauseMs(PAUSES.itemFailed, alert.tries - 1, Math.random()));
  }
}

const bodyOf = (alert: Alert): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      type: 'alert.raised',
      timestamp: formatTimestamp(alert.firstAt),
      data: {
        alert_id: alert.id,
        kind: alert.kind,
        severity: alert.severity,
        org_id: alert.orgId,
        subject: alert.subject,
        message: alert.message,
        count: alert.count,
        first_at: formatTimestamp(alert.firstAt),
        last_at: formatTimestamp(alert.lastAt),
      },
    }),
  );
