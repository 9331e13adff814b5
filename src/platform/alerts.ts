import { statfs } from 'node:fs/promises';
import type { AlertConfig } from '../config/alert-config.ts';
import type { Config } from '../config/load-config.ts';
import { signatureHeader } from '../core/webhook-signature.ts';
import type { Egress } from '../egress/egress.ts';
import type { Engine } from '../engine/engine.ts';
import type { Service } from '../engine/loop.ts';
import type { Alert } from '../ledger/alerts/list-alerts.ts';
import type { ObjectStore } from '../objects/object-store.ts';
import type { PostgresHandle } from '../postgres/open.ts';
import { alertChecks, type DiskRoom, type StorageProbes } from '../services/alerts/alert-checks.ts';
import { type AlertMessage, Announcer } from '../services/alerts/announcer.ts';
import { ProcessMetrics } from '../telemetry/process-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';

export type AlertParts = {
  readonly engine: Engine;
  readonly config: Config;
  readonly egress: Egress;
  readonly telemetry: Telemetry;
  readonly postgres: PostgresHandle;
  readonly store: ObjectStore;
};

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 4_096;
const SECRET_PREFIX = 'whsec_';

/** The loops that look for trouble, and the one that announces alerts. */
export function composeAlerts(parts: AlertParts): Service {
  const { engine, config, egress, telemetry } = parts;
  const metrics = new ProcessMetrics(telemetry.metrics);
  const announce = ({ id, kind, severity, orgId, subject, message }: Alert): void => {
    metrics.alerted({ kind, severity });
    telemetry.log.error('alert', { alert_id: id, kind, severity, org_id: orgId ?? undefined, subject, reason: message });
  };
  const { webhook } = config.alerts;
  const send = webhook === null ? null : (message: AlertMessage) => post(egress, webhook, message);
  const services = [new Announcer({ engine, announce, send }), ...alertChecks(engine, probesOf(parts))];
  return {
    async start() {
      for (const service of services) await service.start();
    },
    async stop() {
      await Promise.all(services.map((service) => service.stop()));
    },
  };
}

/** Returns whether the receiver accepted the message. It follows no redirect, as all webhooks. */
async function post(
  egress: Egress,
  webhook: NonNullable<AlertConfig['webhook']>,
  { id, timestampSeconds, body }: AlertMessage,
): Promise<boolean> {
  const { url, secret } = webhook;
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
  };
  if (secret !== null) headers['webhook-signature'] = signatureHeader({ id, timestampSeconds, body, secrets: [bytesOf(secret)] });
  const answer = await egress.fetch({
    url,
    method: 'POST',
    body,
    timeoutMs: TIMEOUT_MS,
    maxBodyBytes: MAX_ANSWER_BYTES,
    overflow: 'truncate',
    headers,
  });
  return answer.kind === 'answered' && answer.status >= 200 && answer.status < 300;
}

const bytesOf = (secret: string): Uint8Array =>
  secret.startsWith(SECRET_PREFIX) ? Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64') : Buffer.from(secret);

function probesOf({ config, postgres, store }: AlertParts): StorageProbes {
  const { objects, ingest } = config;
  const folders = [
    ...(postgres.kind === 'embedded' && postgres.home !== null ? [{ name: 'database', path: postgres.home }] : []),
    ...(objects.kind === 'folder' ? [{ name: 'objects', path: objects.folder }] : []),
  ];
  return {
    disks: async () => (await Promise.all(folders.map(roomOf))).flat(),
    checkObjects: () => store.check(ingest.settings.bucket),
    storedBytes: config.limits.storedBytes,
  };
}

/** Empty if the folder does not exist yet. */
async function roomOf({ name, path }: { name: string; path: string }): Promise<DiskRoom[]> {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return [{ name, freeBytes: bavail * bsize, totalBytes: blocks * bsize }];
  } catch {
    return [];
  }
}
