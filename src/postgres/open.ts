/** Opens the server of DATABASE_URL, or the embedded one. */
import { join } from 'node:path';
import { checkServer } from './check.ts';
import { openEmbedded } from './embedded.ts';

export type PostgresHandle = {
  url: string;
  kind: 'embedded' | 'external';
  /** The folder of the embedded server; `null` for an external one. */
  home: string | null;
  /** `server_version_num`, for example 180004. */
  version: number;
  /** Stops the embedded server unless another process uses it. Safe to call twice. */
  close(): Promise<void>;
};

export type OpenPostgresOptions = {
  databaseUrl?: string;
  home?: string;
  onNotice?: (sentence: string) => void;
};

export async function openPostgres(options: OpenPostgresOptions = {}): Promise<PostgresHandle> {
  const { onNotice = () => {} } = options;
  const databaseUrl = options.databaseUrl ?? process.env.DATABASE_URL;
  if (databaseUrl) {
    const { version } = await checkServer(databaseUrl, onNotice);
    return { url: databaseUrl, kind: 'external', home: null, version, close: async () => {} };
  }
  const home = options.home || process.env.MILLRACE_HOME || join(process.cwd(), '.millrace');
  return { kind: 'embedded', ...(await openEmbedded({ home, onNotice })) };
}
