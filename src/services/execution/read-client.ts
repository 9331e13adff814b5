import { findClient } from '../../ledger/access/clients.ts';
import { type KeyView, listKeys } from '../access/list-keys.ts';
import { noSuchClient } from './client-errors.ts';
import type { Caller, ExecutionContext } from './context.ts';

export type ClientView = {
  readonly clientId: string;
  readonly createdAt: Date;
  readonly keys: readonly KeyView[];
  readonly limits: ClientLimits;
};

type ClientLimits = {
  /** Null where the limit of the server holds. */
  readonly requestsPerMinute: number | null;
  /** Requests in a UTC day; null is without limit. */
  readonly quota: number | null;
  readonly queueSize: number;
  readonly activeJobs: number;
  readonly payloadBytes: number;
  readonly maxRuntimeMs: number;
};

/** The caller's own client: its keys, without secrets, and the limits that hold for it. */
export async function readClient({ engine, settings }: ExecutionContext, { clientId }: Caller): Promise<ClientView> {
  const [client, keys] = await Promise.all([
    findClient(engine.database.api, clientId),
    listKeys(engine.database, clientId),
  ]);
  if (client === null) throw noSuchClient(clientId);
  const { quota, queueSize, activeJobs, payloadBytes, maxRuntimeMs } = settings;
  const { createdAt, requestsPerMinute } = client;
  const limits = { requestsPerMinute, quota: quota === 0 ? null : quota };
  return { clientId, createdAt, keys, limits: { ...limits, queueSize, activeJobs, payloadBytes, maxRuntimeMs } };
}
