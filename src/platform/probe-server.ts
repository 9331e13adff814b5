import { buildProbes } from '../http/probes.ts';
import { openDatabase } from '../ledger/driver/database.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { addressOf, listen } from './listen.ts';
import { programVersion } from './program-version.ts';

export type ProbeServer = { readonly url: string; close(): Promise<void> };

type ProbeParams = { databaseUrl: string; telemetry: Telemetry; host?: string; port: number };

/** Serves the metrics and the health of a process that only runs jobs. It has sessions of its own, which jobs cannot occupy. */
export async function openProbes({ databaseUrl, telemetry, host = '127.0.0.1', port }: ProbeParams): Promise<ProbeServer> {
  const database = openDatabase({ url: databaseUrl, sharesSessions: true });
  try {
    const http = await buildProbes({ engine: { database }, telemetry, version: programVersion(), allowedHosts: [host] });
    await listen(http, { host, port });
    return {
      url: addressOf(http, host),
      async close() {
        http.server.closeAllConnections();
        await http.close();
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}
