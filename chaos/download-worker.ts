// The worker process of chaos/host-limit.ts: `node chaos/download-worker.ts <database> <folder> <requests at the same time>`.
import { parseRange } from '../src/core/ip-address.ts';
import { createEgress } from '../src/egress/egress.ts';
import { HealthPools } from '../src/egress/health-pools.ts';
import { SharedHostGate } from '../src/engine/downloads/shared-host-gate.ts';
import { EventHub } from '../src/engine/events.ts';
import { fetchRegistration } from '../src/handlers/fetch.ts';
import { Millrace } from '../src/index.ts';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { FolderStore } from '../src/objects/folder-store.ts';

const [url = '', folder = '', concurrency = '3'] = process.argv.slice(2);
const database = openDatabase({ url, sharesSessions: true });
const policy = { allow: [parseRange('127.0.0.0/8')!], targets: [] };
const egress = createEgress({ policy, connectTimeoutMs: 5_000, dnsTimeoutMs: 5_000, userAgent: 'Millrace/chaos' });
const hosts = new SharedHostGate({ database, events: new EventHub(), limits: { concurrency: Number(concurrency), rate: null } });
const millrace = await Millrace.open({ database: url, concurrency: 10 });
millrace.register({
  // The type of downloads is reserved for the ingest API.
  ...fetchRegistration({
    store: new FolderStore(folder),
    egress,
    pools: new HealthPools({ pools: new Map() }),
    hosts,
    limits: { maxBytes: 1_000_000, timeoutMs: 60_000, idleTimeoutMs: 30_000, redirects: 5 },
    log: () => {},
  }),
  type: 'chaos.download',
});
hosts.start();
await millrace.start();
process.stdout.write('ready\n');
process.stdin.resume();
