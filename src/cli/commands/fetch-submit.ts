import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import type { ShownIngestJob } from '../operator-answers.ts';
import { OPERATOR_OPTIONS, type OperatorClient, operatorClient } from '../operator-client.ts';
import { readJobId } from '../option-values.ts';
import type { Output } from '../output.ts';
import { listenForStop, orLeave } from '../stop-signals.ts';
import { UsageError } from '../usage-error.ts';

const SUBMIT_OPTIONS = {
  ...OPERATOR_OPTIONS,
  'job-type': { type: 'string', value: 'NAME', help: 'the job type; default: default' },
  tenant: { type: 'string', value: 'NAME', help: 'the tenant that owns the job' },
  key: { type: 'string', value: 'KEY', help: 'an idempotency key: a repeat returns the first job' },
  'api-key': { type: 'string', value: 'KEY', help: 'the API key, if ingest.auth is "key"; default: MILLRACE_KEY' },
  watch: { type: 'boolean', help: 'follow the job until it has ended' },
} as const;

export const fetchSubmit = defineCommand({
  name: 'fetch submit',
  summary: 'submit a manifest of downloads',
  takes: 'FILE',
  minArgs: 1,
  maxArgs: 1,
  options: SUBMIT_OPTIONS,
  details: 'FILE contains the manifest as JSON; "-" reads it from stdin. It is sent compressed.',
  examples: [
    'millrace fetch submit manifest.json --job-type gallery',
    'millrace fetch submit - --tenant crawler-a --key crawl-17 < manifest.json',
  ],
  isLongRunning: true,
  async run(invocation: Invocation<typeof SUBMIT_OPTIONS>) {
    const { values, args, out } = invocation;
    const client = operatorClient(values);
    const bytes = await readManifestFile(args[0] as string);
    const key = values['api-key'] ?? process.env.MILLRACE_KEY;
    const accepted = await client.submit(gzipSync(bytes), {
      'content-type': 'application/json',
      'content-encoding': 'gzip',
      'x-fetchbox-job-type': values['job-type'] ?? 'default',
      ...(values.tenant === undefined ? {} : { 'x-fetchbox-tenant': values.tenant }),
      ...(values.key === undefined ? {} : { 'x-fetchbox-idempotency-key': values.key }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    });
    out.answer(accepted, () => [
      `Accepted ${accepted.job_id} with ${accepted.resource_count} resources.`,
      `  manifest  ${accepted.manifest_key}`,
      ...(values.watch === true ? [] : [`Follow it with "millrace fetch watch ${accepted.job_id}".`]),
    ]);
    return values.watch === true ? watchJob(client, accepted.job_id, out) : EXIT.ok;
  },
});

async function readManifestFile(file: string): Promise<Buffer> {
  if (file === '-') return readStdin();
  return readFile(file).catch((cause: unknown) => {
    throw new UsageError(`The file ${file} cannot be read: ${cause instanceof Error ? cause.message : cause}.`, 'fetch submit');
  });
}

async function readStdin(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export const fetchWatch = defineCommand({
  name: 'fetch watch',
  summary: 'follow an ingest job until it has ended',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: OPERATOR_OPTIONS,
  details: 'Shows a bar on a terminal, and a line for each change elsewhere. Exits with 1 unless all downloads completed.',
  examples: ['millrace fetch watch ID', 'millrace fetch watch ID --json'],
  isLongRunning: true,
  run: ({ values, args, out }: Invocation<typeof OPERATOR_OPTIONS>) => watchJob(operatorClient(values), readJobId(args[0]), out),
});

const LOOK_EVERY_MS = 500;
const BAR = 30;

function watchJob(client: OperatorClient, id: string, out: Output): Promise<number> {
  const stop = listenForStop(() => {});
  const work = follow(client, { id, out, stopped: stop.asked });
  return orLeave(work, { asked: stop.asked, code: EXIT.interrupted }).finally(() => stop.release());
}

type Following = { readonly id: string; readonly out: Output; readonly stopped: Promise<unknown> };

async function follow(client: OperatorClient, { id, out, stopped }: Following): Promise<number> {
  const stopping = new AbortController();
  void stopped.then(() => stopping.abort());
  let said = '';
  for (;;) {
    const job = await client.get<ShownIngestJob>(`/jobs/${id}`);
    const isOver = job.status === 'completed' || job.status === 'failed';
    const text = lineOf(job);
    if (out.isTty && !isOver) out.progress(`${barOf(job)}  ${text}`);
    else if (text !== said) {
      out.progress('');
      out.event({ event: 'progress', ...job }, `${job.updated_at}  ${text}`);
    }
    said = text;
    if (isOver) return job.status === 'completed' ? EXIT.ok : EXIT.failed;
    await pause(LOOK_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
    if (stopping.signal.aborted) {
      out.progress('');
      out.event({ event: 'stopped' }, 'Stopped watching. The job continues.');
      return EXIT.interrupted;
    }
  }
}

function lineOf({
  status,
  resource_completed: done,
  resource_failed: failed,
  resource_total: total,
  bytes,
  last_error,
}: ShownIngestJob): string {
  const why = last_error === null ? '' : `  ${last_error.code}: ${last_error.message}`;
  return `${status}  ${done} of ${total} completed, ${failed} failed, ${bytes} bytes${why}`;
}

function barOf({ resource_completed: done, resource_failed: failed, resource_total: total }: ShownIngestJob): string {
  const filled = total === 0 ? BAR : Math.round(((done + failed) / total) * BAR);
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR - filled)}]`;
}
