/** What an alert is about. */
export const ALERT_KINDS = ['dead_letter', 'slo', 'no_worker', 'storage', 'webhook_disabled', 'operation_halted', 'stuck_loop'] as const;

export type AlertKind = (typeof ALERT_KINDS)[number];

export const ALERT_SEVERITIES = ['info', 'warning', 'error', 'critical'] as const;

export type AlertSeverity = (typeof ALERT_SEVERITIES)[number];

export type NewAlert = {
  readonly kind: AlertKind;
  readonly severity: AlertSeverity;
  /** Null: it concerns the whole platform. */
  readonly orgId: string | null;
  /** Names the thing: `queue:q:default`, `job:<id>`, `webhook:<id>`. Alerts about one subject within an hour are one alert. */
  readonly subject: string;
  /** A sentence that says what is wrong and what to do. It contains no payload and no secret. */
  readonly message: string;
  /** How many new occurrences this is. Default: 1. */
  readonly count?: number;
};
