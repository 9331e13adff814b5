import { showDuration } from '../../config/values.ts';
import { DatabaseWatch } from '../../platform/database-watch.ts';
import type { openProbes as OpenProbes, ProbeServer } from '../../platform/probe-server.ts';
import { openTraces, processTelemetry } from '../../platform/process-telemetry.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { dataFolder, maskPassword, settingsOf } from '../connection.ts';
import { readDurationMs, readInteger, readList, readPort } from '../option-values.ts';
import type { Output } from '../output.ts';
import { openBuiltIns, openShift } from '../shift.ts';
import { listenForStop } from '../stop-signals.ts';

const OPTIONS = {
  concurrency: { type: 'string', value: 'N', help: 'how many jobs this process runs at the same time; default 1' },
  queues: { type: 'string', multiple: true, value: 'A,B', help: 'the queues to take jobs from; default: all queues' },
  name: { type: 'string', value: 'NAME', help: 'the name of this worker in histories; default: host and process id' },
  port: { type: 'string', value: 'N', help: 'serve /metrics, /healthz and /readyz on this port; default: none' },
  host: { type: 'string', value: 'ADDRESS', help: 'the address of that port; default 127.0.0.1' },
  grace: { type: 'string', value: 'DURATION', help: 'how long running jobs may continue after a stop; default 30s' },
} as const;

export const work = defineCommand({
  name: 'work',
  summary: 'run the handlers of your modules, or the built-in job types',
  takes: '[MODULE...]',
  maxArgs: 1_000,
  options: OPTIONS,
  details: [
    'A module is a JavaScript or TypeScript file, named by its path. It exports a function "register(millrace)", or "handlers":',
    'a list of registrations { type, handler, ... }, or an object of them by type. Without a module the process runs the built-in',
    'types (jobs of /v1, downloads, and jobs of the type simulate) and sends webhooks. With a module that calls registerIngestHandler it',
    'does both.',
    'After SIGTERM or SIGINT the process starts no more jobs. Running jobs may finish within the grace period; the others return to',
    'the queue without using up an attempt. A second signal ends the process immediately.',
  ].join('\n'),
  examples: [
    'millrace work --concurrency 10',
    'millrace work ./handlers.ts',
    'millrace work ./handlers.ts --port 9100',
    'millrace work ./mail.ts ./reports.ts --concurrency 50 --queues q:mail,q:reports --grace 2m',
  ],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, args, out } = invocation;
  const { config } = settingsOf(values);
  // Before the modules are loaded, so that their spans belong to those of their jobs.
  const tracing = await openTraces(config.telemetry);
  const telemetry = processTelemetry(out, config.telemetry, tracing);
  const port = readPort(values.port);
  const graceMs = readDurationMs(values.grace, 'grace') ?? config.workers.drainGraceMs;
  const concurrency = readInteger(values.concurrency, 'concurrency') ?? config.workers.concurrency ?? 1;
  const queues = readList(values.queues) ?? [...config.workers.queues];
  const { name } = values;
  const stop = listenForStop(() =>
    out.event({ event: 'forced' }, 'Stopped immediately. Other workers take over the jobs of this process in a few seconds.'),
  );
  const options = { concurrency, queues, name, telemetry };
  const shift = await (args.length === 0 ? openBuiltIns(invocation, options) : openShift(invocation, args, options));
  const watch = new DatabaseWatch(shift, { out, log: telemetry.log });
  let probes: ProbeServer | null = null;
  try {
    await shift.start();
    if (port !== undefined) probes = await openProbes({ databaseUrl: shift.databaseUrl, telemetry, host: values.host, port });
    const database = maskPassword(shift.databaseUrl);
    const url = probes?.url ?? null;
    announce(out, { types: [...shift.types], queues, concurrency, database, home: dataFolder(values), url });
    const signal = await stop.asked;
    const grace = showDuration(graceMs);
    out.event({ event: 'draining', signal, grace }, `${signal}: draining; running jobs have ${grace} to finish.`);
    await shift.drain(graceMs);
  } finally {
    watch.stop();
    await probes?.close();
    await shift.close();
    await tracing?.close();
    stop.release();
  }
  out.event({ event: 'stopped' }, 'Stopped.');
  return EXIT.ok;
}

/** The server needs libraries that take a moment to load. */
const openProbes: typeof OpenProbes = async (params) => (await import('../../platform/probe-server.ts')).openProbes(params);

type Served = { types: string[]; queues: string[]; concurrency: number; database: string; home: string | null; url: string | null };

function announce(out: Output, served: Served): void {
  const { types, queues, concurrency, database, home, url } = served;
  const where = queues.includes('*') ? 'all queues' : `queue ${queues.join(', ')}`;
  const lines = [
    `Serving ${types.join(', ') || 'no job types: no handler is registered'}`,
    `  from ${where}, ${concurrency} at the same time`,
    `  database ${database}${home === null ? '' : ` (data in ${home})`}`,
    ...(url === null ? [] : [`  metrics ${url}/metrics`]),
    'Stop with Ctrl-C or SIGTERM: running jobs may finish first. A second signal stops immediately.',
  ];
  out.event({ event: 'serving', ...served, pid: process.pid }, lines);
}
