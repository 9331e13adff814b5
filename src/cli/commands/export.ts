import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { AppError } from '../../core/errors.ts';
import { INGEST_STATUSES } from '../../core/ingest/status.ts';
import { parseTimestamp } from '../../core/timestamp.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import { exportJobs } from '../../services/ingest/export-jobs.ts';
import { importJob, UnreadableSnapshot } from '../../services/ingest/import-jobs.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withLedger } from '../connection.ts';
import { readWord } from '../option-values.ts';
import { UsageError } from '../usage-error.ts';

const EXPORT_OPTIONS = {
  'job-type': { type: 'string', value: 'NAME', help: 'only jobs of this job type' },
  tenant: { type: 'string', value: 'NAME', help: 'only jobs of this tenant' },
  org: { type: 'string', value: 'ORG', help: 'only jobs of this org, by its slug or its id' },
  status: { type: 'string', value: 'STATUS', help: `only jobs with this status: ${INGEST_STATUSES.join(', ')}` },
  since: { type: 'string', value: 'TIME', help: 'only jobs accepted at or after this time (RFC 3339)' },
  until: { type: 'string', value: 'TIME', help: 'only jobs accepted before this time (RFC 3339)' },
} as const;

/** Named `export` on the command line. */
export const exportIngest = defineCommand({
  name: 'export',
  summary: 'write ingest jobs to stdout, one JSON object per line',
  options: EXPORT_OPTIONS,
  details: 'Newest first, as GET /operators/jobs shows them. Progress goes to stderr. Use it before old jobs are removed.',
  examples: ['millrace export > jobs.ndjson', 'millrace export --job-type gallery --since 2026-01-01T00:00:00Z > jobs.ndjson'],
  run(invocation: Invocation<typeof EXPORT_OPTIONS>) {
    const { values, out } = invocation;
    const since = readTime(values.since, 'since');
    const until = readTime(values.until, 'until');
    const status = readWord(values.status, 'status', INGEST_STATUSES) ?? null;
    return withLedger(invocation, async (database) => {
      const orgId = values.org === undefined ? null : (await findOrgByName(database, values.org)).id;
      let count = 0;
      for await (const page of exportJobs(database, {
        jobType: values['job-type'] ?? null,
        tenant: values.tenant ?? null,
        orgId,
        status,
        since,
        until,
      })) {
        for (const snapshot of page) {
          if (!process.stdout.write(`${JSON.stringify(snapshot)}\n`)) await new Promise((resolve) => process.stdout.once('drain', resolve));
        }
        count += page.length;
        out.progress(`${count} jobs ...`);
      }
      out.progress('');
      out.note(`Exported ${count} jobs.`);
      return EXIT.ok;
    });
  },
});

function readTime(text: string | undefined, option: string): Date | null {
  if (text === undefined) return null;
  const read = parseTimestamp(text);
  if (read.ok) return read.date;
  throw new UsageError(`--${option}: ${read.message}.`, 'export');
}

export const importIngest = defineCommand({
  name: 'import',
  summary: 'add ingest jobs of an export to the database',
  takes: '[FILE]',
  maxArgs: 1,
  details: [
    'FILE contains what "millrace export" wrote; without it, or with "-", stdin is read. Jobs that exist are left as they are, and jobs that',
    'had not ended are left out. Imported jobs have no tasks and no log. Their retention begins with the import.',
  ].join('\n'),
  examples: ['millrace import jobs.ndjson', 'millrace import < jobs.ndjson'],
  run(invocation: Invocation) {
    const { args, out } = invocation;
    return withLedger(invocation, async (database) => {
      const counts = { imported: 0, exists: 0, running: 0 };
      let number = 0;
      for await (const line of linesOf(args[0])) {
        number++;
        if (line.trim() === '') continue;
        const outcome = await importJob(database, line).catch((error: unknown) => {
          if (!(error instanceof UnreadableSnapshot)) throw error;
          const message = `Line ${number} is not a job of an export: ${error.message}. The ${counts.imported} jobs before it were imported.`;
          throw new AppError('INVALID_REQUEST', { message });
        });
        counts[outcome]++;
        if (number % 100 === 0) out.progress(`${number} lines ...`);
      }
      out.progress('');
      const { imported, exists, running } = counts;
      out.answer({ imported, exists, left_out: running }, () => [
        `Imported ${imported} jobs. ${exists} existed, and ${running} had not ended.`,
      ]);
      return EXIT.ok;
    });
  },
});

function linesOf(file: string | undefined): AsyncIterable<string> {
  const input = file === undefined || file === '-' ? process.stdin : createReadStream(file);
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  input.on('error', (cause) => {
    lines.close();
    throw new UsageError(`The file ${file} cannot be read: ${cause.message}.`, 'import');
  });
  return lines;
}
