import { type Queryable, run, statement } from '../driver/statement.ts';
import { ALERT_COLUMNS, type Alert } from './list-alerts.ts';

// Each alert is taken once, by one process. A process that dies between this statement and its log line leaves the alert without a line;
// the list and the webhook still show it.
const TAKE = statement(
  'take_alerts_to_announce',
  `UPDATE millrace.alerts a SET announced_at = millrace.clock() WHERE a.id = ANY (ARRAY(
     SELECT id FROM millrace.alerts WHERE announced_at IS NULL ORDER BY first_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED))
   RETURNING ${ALERT_COLUMNS}`,
);

// The process that takes an alert has it for $2 ms. If it dies, another one sends the alert after that time. An older alert is not sent: a
// webhook that is configured today is not for the alerts of last week.
const TAKE_TO_NOTIFY = statement(
  'take_alerts_to_notify',
  `UPDATE millrace.alerts a SET notify_tries = a.notify_tries + 1, notify_after = millrace.clock() + $2::float8 * interval '1 ms'
   WHERE a.id = ANY (ARRAY(
     SELECT id FROM millrace.alerts WHERE notified_at IS NULL AND first_at > millrace.clock() - interval '1 day' AND notify_tries < $3::int4
       AND (notify_after IS NULL OR notify_after <= millrace.clock())
     ORDER BY first_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED))
   RETURNING ${ALERT_COLUMNS}, a.notify_tries::int4 AS tries`,
);

const NOTE_NOTIFIED = statement('note_alert_notified', 'UPDATE millrace.alerts SET notified_at = millrace.clock() WHERE id = $1::uuid');

const NOTIFY_LATER = statement(
  'notify_alert_later',
  `UPDATE millrace.alerts SET notify_after = millrace.clock() + $2::float8 * interval '1 ms' WHERE id = $1::uuid`,
);

const PRUNE = statement(
  'prune_alerts',
  `WITH old AS MATERIALIZED (
     SELECT id FROM millrace.alerts WHERE first_at <= millrace.clock() - $1::float8 * interval '1 ms'
       AND last_at <= millrace.clock() - $1::float8 * interval '1 ms'
     ORDER BY first_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.alerts a USING old o WHERE a.id = o.id RETURNING 1 AS one`,
);

/** Takes alerts that no process has announced. No other process gets them again. */
export const takeAlertsToAnnounce = (db: Queryable, limit: number): Promise<Alert[]> => run<Alert>(db, TAKE, [limit]);

export type AlertToSend = Alert & { readonly tries: number };

/** Takes alerts to send to the webhook, for `forMs`. */
export const takeAlertsToNotify = (
  db: Queryable,
  { limit, forMs, maxTries }: { limit: number; forMs: number; maxTries: number },
): Promise<AlertToSend[]> => run<AlertToSend>(db, TAKE_TO_NOTIFY, [limit, forMs, maxTries]);

export async function noteAlertNotified(db: Queryable, id: string): Promise<void> {
  await run(db, NOTE_NOTIFIED, [id]);
}

export async function notifyAlertLater(db: Queryable, id: string, delayMs: number): Promise<void> {
  await run(db, NOTIFY_LATER, [id, delayMs]);
}

/** Removes alerts that were last raised longer ago than `retentionMs`. Returns how many. */
export async function pruneAlerts(db: Queryable, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  return (await run(db, PRUNE, [retentionMs, limit])).length;
}
