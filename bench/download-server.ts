// The server that bench/downloads.ts measures, `<database url> <folder> <lanes>`: the parts of `millrace serve` with a folder as object store.
// Reports its port, answers each message with the most memory that it used so far, and ends with its parent.
import { Output } from '../src/cli/output.ts';
import { loadConfig } from '../src/config/load-config.ts';
import { openApi } from '../src/platform/api-server.ts';
import { openPlatform } from '../src/platform/platform.ts';

export const OPERATOR_TOKEN = 'operator-token-of-the-bench';

async function open([url = '', folder = '', lanes = '64']: readonly string[]): Promise<void> {
  const { config } = loadConfig({
    folder,
    environment: {
      DATABASE_URL: url,
      MILLRACE_HOME: folder,
      MILLRACE_SERVER_PORT: '0',
      MILLRACE_EGRESS_ALLOW: '127.0.0.1/32',
      MILLRACE_OPERATOR_TOKEN: OPERATOR_TOKEN,
      MILLRACE_DOWNLOADS_HOST_CONCURRENCY: lanes,
      MILLRACE_LIMITS_QUEUE_SIZE: '1000000',
    },
  });
  const out = new Output({ json: true, verbose: false });
  out.event = () => {};
  out.note = () => {};
  const platform = await openPlatform({ config, out, migrates: true, concurrency: Number(lanes) });
  const api = await openApi(platform, { config, out, operator: { token: OPERATOR_TOKEN, file: null, isNew: false } });
  await platform.start();
  const address = await api.listen();
  process.once('disconnect', async () => {
    await api.close();
    await platform.close(0);
    process.exit(0);
  });
  process.on('message', () => process.send?.(process.resourceUsage().maxRSS * 1_024));
  process.send?.(Number(new URL(address).port));
}

if (process.send !== undefined && import.meta.main) await open(process.argv.slice(2));
