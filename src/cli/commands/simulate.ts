import { writeFile } from 'node:fs/promises';
import { AppError } from '../../core/errors.ts';
import { embeddedHost } from '../../simulator/embedded.ts';
import { type Host, remoteHost } from '../../simulator/host.ts';
import { htmlReport } from '../../simulator/html-report.ts';
import { runSimulation } from '../../simulator/run.ts';
import { type Summary, summarize } from '../../simulator/summary.ts';
import { openReceiver, type Receiver } from '../../simulator/webhook-receiver.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { LiveView } from '../simulate/live-view.ts';
import { readOptions, SIMULATE_OPTIONS, type SimulateSettings } from '../simulate/options.ts';
import { summaryLines } from '../simulate/summary-text.ts';
import { listenForStop } from '../stop-signals.ts';

export const simulate = defineCommand({
  name: 'simulate',
  summary: 'run every work kind on a server and check that each job ends as the list of work kinds says',
  options: SIMULATE_OPTIONS,
  details: [
    'Creates clients and uses only the public API. It sends the cancels, retries, duplicates, callbacks and restarts that a kind',
    'needs. Then it compares the state, outcome and events of every job with that list. Without --jobs and --duration every',
    'client runs every kind once. Exits with 1 if a job differs or is lost.',
  ].join('\n'),
  examples: [
    'millrace simulate --embedded --all --time-scale 0.01',
    'millrace simulate --url http://127.0.0.1:8484 --kinds SUCCESS_FAST,CANCEL_DURING_RUN --jobs 100',
    'millrace simulate --embedded --mix SUCCESS_FAST=9,FAIL_IMMEDIATE=1 --rate 500/s --duration 1m --time-scale 0.01 --html run.html',
  ],
  isLongRunning: true,
  run,
});

async function run({ values, out }: Invocation<typeof SIMULATE_OPTIONS>): Promise<number> {
  const settings = readOptions(values);
  const stop = listenForStop(() => {});
  const interruption = new AbortController();
  void stop.asked.then(() => interruption.abort());
  const view = new LiveView(out);
  let host: Host | null = null;
  const receiver = await openReceiver({ port: settings.receiverPort });
  try {
    host = await openHost(settings, { receiver, note: (sentence) => out.note(sentence) });
    out.note(`Driving ${host.url}.`);
    const done = await runSimulation(host, {
      ...settings.run,
      receiver,
      signal: interruption.signal,
      onStart: (stats) => view.start(stats),
    });
    view.stop();
    const { seed, clients } = settings.run.plan;
    const summary = summarize(done, { url: host.url, seed, clients, timeScale: settings.run.timeScale });
    await savePage(settings.html, summary);
    out.answer(summary, () => summaryLines(summary, out));
    if (summary.wasInterrupted) return EXIT.interrupted;
    return summary.ok ? EXIT.ok : EXIT.failed;
  } finally {
    view.stop();
    await host?.close();
    await receiver.close();
    stop.release();
  }
}

type Surroundings = { receiver: Receiver; note: (sentence: string) => void };

function openHost({ host, run: { timeScale } }: SimulateSettings, { receiver, note }: Surroundings): Promise<Host> {
  if (host.kind === 'remote') return remoteHost(host);
  note('Starting a server for this run.');
  return embeddedHost({ timeScale, databaseUrl: host.databaseUrl, receiver: new URL(receiver.url('ok')).host });
}

async function savePage(file: string | null, summary: Summary): Promise<void> {
  if (file === null) return;
  try {
    await writeFile(file, htmlReport(summary));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new AppError('UNAVAILABLE', { message: `The HTML page could not be written to ${file}: ${why}.`, cause });
  }
}
