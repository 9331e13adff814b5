import { INGEST_STATUSES } from '../../core/ingest/status.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import type { ItemPage, ShownIngestJob, ShownResource } from '../operator-answers.ts';
import { OPERATOR_OPTIONS, operatorClient } from '../operator-client.ts';
import { readInteger, readJobId, readWord } from '../option-values.ts';
import { listenForStop } from '../stop-signals.ts';
import { textFacts, textTable } from '../text-table.ts';

const LIST_OPTIONS = {
  ...OPERATOR_OPTIONS,
  status: { type: 'string', value: 'STATUS', help: `only jobs with this status: ${INGEST_STATUSES.join(', ')}` },
  'job-type': { type: 'string', value: 'NAME', help: 'only jobs of this job type' },
  tenant: { type: 'string', value: 'NAME', help: 'only jobs of this tenant' },
  org: { type: 'string', value: 'ORG', help: 'only jobs of this org, by its slug or its id' },
  since: { type: 'string', value: 'TIME', help: 'only jobs accepted at or after this time (RFC 3339)' },
  limit: { type: 'string', value: 'N', help: 'how many jobs to show; default 20' },
} as const;

export const fetchList = defineCommand({
  name: 'fetch list',
  summary: 'list ingest jobs, newest first',
  options: LIST_OPTIONS,
  examples: ['millrace fetch list', 'millrace fetch list --status failed --job-type gallery --json'],
  async run({ values, out }: Invocation<typeof LIST_OPTIONS>) {
    const query = new URLSearchParams({ limit: String(readInteger(values.limit, 'limit') ?? 20) });
    const given = { status: readWord(values.status, 'status', INGEST_STATUSES), job_type: values['job-type'], tenant: values.tenant };
    for (const [name, value] of Object.entries({ ...given, org: values.org, since: values.since }))
      if (value !== undefined) query.set(name, value);
    const { items, next_cursor } = await operatorClient(values).get<ItemPage<ShownIngestJob>>(`/jobs?${query}`);
    out.answer({ items, next_cursor }, () => [
      ...textTable(
        ['job', 'type', 'tenant', 'status', 'done', 'failed', 'of', 'created'],
        items.map((job) => [
          job.job_id,
          job.job_type,
          job.tenant ?? '',
          job.status,
          `${job.resource_completed}`,
          `${job.resource_failed}`,
          `${job.resource_total}`,
          job.created_at,
        ]),
      ),
      ...(next_cursor === null ? [] : ['There are more. Raise --limit, or narrow the list.']),
    ]);
    return EXIT.ok;
  },
});

const SHOW_OPTIONS = {
  ...OPERATOR_OPTIONS,
  status: { type: 'string', value: 'STATUS', help: 'only resources with this status' },
  limit: { type: 'string', value: 'N', help: 'how many resources to show; default 100' },
} as const;

export const fetchShow = defineCommand({
  name: 'fetch show',
  summary: 'show an ingest job and its resources',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: SHOW_OPTIONS,
  examples: ['millrace fetch show ID', 'millrace fetch show ID --status failed --json'],
  async run({ values, args, out }: Invocation<typeof SHOW_OPTIONS>) {
    const id = readJobId(args[0]);
    const client = operatorClient(values);
    const status = readWord(values.status, 'status', INGEST_STATUSES);
    const query = new URLSearchParams({
      limit: String(readInteger(values.limit, 'limit') ?? 100),
      ...(status === undefined ? {} : { status }),
    });
    const job = await client.get<ShownIngestJob>(`/jobs/${id}`);
    const { items: resources, next_cursor } = await client.get<ItemPage<ShownResource>>(`/jobs/${id}/resources?${query}`);
    out.answer({ job, resources, next_cursor }, () => [
      ...jobLines(job),
      '',
      ...textTable(
        ['resource', 'status', 'attempts', 'http', 'bytes', 'object or error'],
        resources.map((each) => [
          each.id,
          each.status,
          `${each.attempts}`,
          each.http_status === null ? '' : `${each.http_status}`,
          each.bytes === null ? '' : `${each.bytes}`,
          each.error === null ? (each.object_key ?? '') : `${each.error.code}: ${each.error.message}`,
        ]),
      ),
      ...(next_cursor === null ? [] : ['There are more resources. Raise --limit.']),
    ]);
    return EXIT.ok;
  },
});

function jobLines(job: ShownIngestJob): string[] {
  return textFacts([
    ['job', job.job_id],
    ['type', job.job_type],
    ['org', job.org],
    ['tenant', job.tenant],
    ['status', job.status],
    ['resources', `${job.resource_completed} completed, ${job.resource_failed} failed, ${job.resource_total} in all`],
    ['bytes', `${job.bytes}`],
    ['created', job.created_at],
    ['updated', job.updated_at],
    ['manifest', job.manifest_key],
    ['last error', job.last_error === null ? null : `${job.last_error.code}: ${job.last_error.message}`],
    ['last step', job.finalizer],
  ]);
}

const LOG_OPTIONS = {
  ...OPERATOR_OPTIONS,
  follow: { type: 'boolean', help: 'wait for further lines until the job has ended' },
  since: { type: 'string', value: 'OFFSET', help: 'the first offset to show; default: the beginning' },
} as const;

export const fetchLogs = defineCommand({
  name: 'fetch logs',
  summary: 'show the log of an ingest job',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: LOG_OPTIONS,
  examples: ['millrace fetch logs ID', 'millrace fetch logs ID --follow', 'millrace fetch logs ID --json > job.ndjson'],
  isLongRunning: true,
  async run({ values, args, out }: Invocation<typeof LOG_OPTIONS>) {
    const id = readJobId(args[0]);
    const since = readInteger(values.since, 'since', 0);
    const query = new URLSearchParams({
      follow: String(values.follow === true),
      ...(since === undefined ? {} : { since_offset: String(since) }),
    });
    const stop = listenForStop(() => {});
    const abort = new AbortController();
    void stop.asked.then(() => abort.abort());
    try {
      for await (const text of operatorClient(values).lines(`/jobs/${id}/logs?${query}`, abort.signal)) {
        const line = JSON.parse(text);
        out.answer(line, () => [
          `${line.at}  ${line.level.padEnd(5)}  ${line.resource_id === undefined ? '' : `${line.resource_id}  `}${line.message}`,
        ]);
      }
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    } finally {
      stop.release();
    }
    return abort.signal.aborted ? EXIT.interrupted : EXIT.ok;
  },
});

const ACT_OPTIONS = {
  ...OPERATOR_OPTIONS,
  reason: { type: 'string', value: 'TEXT', help: 'why; it is written to the log of the job' },
} as const;

export const fetchRetry = defineCommand({
  name: 'fetch retry',
  summary: 'retry the failed resources of an ingest job',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ACT_OPTIONS,
  examples: ['millrace fetch retry ID', 'millrace fetch retry ID --reason "the origin is back"'],
  async run({ values, args, out }: Invocation<typeof ACT_OPTIONS>) {
    const result = await operatorClient(values).post<{ retried: number }>(`/jobs/${readJobId(args[0])}/retry`, reasonOf(values.reason));
    out.answer(result, () => [`${result.retried} downloads begin again.`]);
    return EXIT.ok;
  },
});

export const fetchCancel = defineCommand({
  name: 'fetch cancel',
  summary: 'cancel the downloads of an ingest job that have not ended',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ACT_OPTIONS,
  examples: ['millrace fetch cancel ID --reason "wrong manifest"'],
  async run({ values, args, out }: Invocation<typeof ACT_OPTIONS>) {
    const result = await operatorClient(values).post<{ cancelled: number }>(`/jobs/${readJobId(args[0])}/cancel`, reasonOf(values.reason));
    out.answer(result, () => [`${result.cancelled} downloads are cancelled, or asked to stop.`]);
    return EXIT.ok;
  },
});

export const reasonOf = (reason: string | undefined): object => (reason === undefined ? {} : { reason });
