import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { AppError } from '../../core/errors.ts';
import type { BadRow } from '../../core/governance/verify-chain.ts';
import { ExportChecker } from '../../core/governance/verify-export.ts';
import { parseTimestamp } from '../../core/timestamp.ts';
import { auditOrg } from '../../services/audit/audit-org.ts';
import { exportAudit } from '../../services/audit/export-audit.ts';
import { listAudit } from '../../services/audit/list-audit.ts';
import { verifyAudit } from '../../services/audit/verify-audit.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine, withLedger } from '../connection.ts';
import { readInteger } from '../option-values.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';

const ORG = { org: { type: 'string', value: 'NAME', help: 'only this org, by its slug or its id; default: every org' } } as const;

const LIST_OPTIONS = {
  ...ORG,
  job: { type: 'string', value: 'ID', help: 'only rows of this job' },
  event: { type: 'string', value: 'NAME', help: 'only this event, such as job.failed' },
  actor: { type: 'string', value: 'ID', help: 'only what this actor caused' },
  since: { type: 'string', value: 'TIME', help: 'only at or after this time (RFC 3339)' },
  until: { type: 'string', value: 'TIME', help: 'only before this time (RFC 3339)' },
  limit: { type: 'string', value: 'N', help: 'how many rows, 1 to 1000; default 50' },
  cursor: { type: 'string', value: 'CURSOR', help: 'where the page before ended' },
} as const;

const MOST_ROWS = 1_000;

export const auditList = defineCommand({
  name: 'audit list',
  summary: 'show the audit trail, newest first',
  options: LIST_OPTIONS,
  examples: ['millrace audit list --org acme', 'millrace audit list --event job.failed --since 2026-01-01T00:00:00Z --json'],
  async run(invocation: Invocation<typeof LIST_OPTIONS>) {
    const { values, out } = invocation;
    const limit = Math.min(MOST_ROWS, readInteger(values.limit, 'limit') ?? 50);
    const page = { limit, cursor: values.cursor ?? null };
    const times = { since: readTime(values.since, 'since'), until: readTime(values.until, 'until') };
    const { rows, nextCursor } = await withEngine(invocation, async (engine) => {
      const orgId = values.org === undefined ? null : await auditOrg(engine.database, values.org);
      const named = { jobId: values.job ?? null, event: values.event ?? null, actorId: values.actor ?? null };
      return listAudit(engine, { orgId, projectId: null, ...named, ...times }, page);
    });
    const shown = rows.map((row) => ({ ...row, details: JSON.parse(row.details) as unknown }));
    out.answer({ rows: shown, nextCursor }, () => [
      ...textTable(
        ['at', 'event', 'actor', 'performed by', 'job', 'details'],
        rows.map(({ at, event, actorType, actorId, performedBy, jobId, details }) => [
          at.toISOString(),
          event,
          `${actorType}:${actorId}`,
          performedBy ?? '',
          jobId ?? '',
          details,
        ]),
      ),
      ...(nextCursor === null ? [] : [`More: --cursor ${nextCursor}`]),
    ]);
    return EXIT.ok;
  },
});

export const auditExport = defineCommand({
  name: 'audit export',
  summary: 'write the audit trail to a file or to stdout, one JSON object per line',
  takes: '[FILE]',
  maxArgs: 1,
  options: ORG,
  details: 'Oldest first, one org after another. "millrace audit verify FILE" checks the file without a database.',
  examples: ['millrace audit export --org acme audit.ndjson', 'millrace audit export > audit.ndjson'],
  async run(invocation: Invocation<typeof ORG>) {
    const { values, args, out } = invocation;
    const [file] = args;
    const handle = file === undefined ? null : await open(file, 'wx').catch((error) => refuseFile(error, file));
    try {
      return await withLedger(invocation, async (database) => {
        const orgId = values.org === undefined ? null : await auditOrg(database, values.org);
        for await (const lines of exportAudit(database, { orgId })) {
          if (handle !== null) await handle.write(lines);
          else if (!process.stdout.write(lines)) await new Promise((resolve) => process.stdout.once('drain', resolve));
        }
        if (file !== undefined) out.note(`Exported the audit trail to ${file}.`);
        return EXIT.ok;
      });
    } finally {
      await handle?.close();
    }
  },
});

export const auditVerify = defineCommand({
  name: 'audit verify',
  summary: 'check the audit trail, or an export of it, for changed and missing rows',
  takes: '[FILE]',
  maxArgs: 1,
  options: ORG,
  details: 'With FILE it reads an export and needs no database. Exits with 1, and names the row, if a row was changed, moved or removed.',
  examples: ['millrace audit verify', 'millrace audit verify --org acme', 'millrace audit verify audit.ndjson'],
  run(invocation: Invocation<typeof ORG>) {
    const [file] = invocation.args;
    if (file === undefined) return verifyLedger(invocation);
    if (invocation.values.org !== undefined) throw new UsageError('Give either --org or a file.', 'audit verify');
    return verifyFile(invocation, file);
  },
});

async function verifyLedger(invocation: Invocation<typeof ORG>): Promise<number> {
  const { values, out } = invocation;
  const { ok, rows, firstBad, lagSeconds, setAside } = await withLedger(invocation, async (database) => {
    const orgId = values.org === undefined ? null : await auditOrg(database, values.org);
    return verifyAudit(database, { orgId, onProgress: (count) => out.progress(`${count} rows ...`) });
  });
  out.progress('');
  out.answer({ ok, rows, first_bad: shownBad(firstBad), lag_seconds: lagSeconds, set_aside: setAside }, () => [
    firstBad === null ? out.paint('green', `The audit trail is intact: ${rows} rows checked.`) : out.paint('red', badText(firstBad)),
    ...(lagSeconds > 1 ? [`The oldest event that is not in the trail yet is ${Math.round(lagSeconds)} seconds old.`] : []),
    ...(setAside > 0 ? [`${setAside} events could not be added: see the table millrace.set_aside.`] : []),
  ]);
  return ok ? EXIT.ok : EXIT.failed;
}

async function verifyFile({ out }: Invocation<typeof ORG>, file: string): Promise<number> {
  const checker = new ExportChecker();
  let verdict = null;
  for await (const line of linesOf(file)) {
    verdict = checker.add(line);
    if (verdict !== null) break;
  }
  const found = verdict ?? checker.end();
  const isOk = found.kind === 'ok';
  out.answer({ ok: isOk, rows: found.rows, first_bad: isOk ? null : shownBad(found.firstBad), line: isOk ? null : found.line }, () => [
    isOk
      ? out.paint('green', `The export is intact: ${found.rows} rows checked.`)
      : out.paint('red', `Line ${found.line}: ${badText(found.firstBad)}`),
  ]);
  return isOk ? EXIT.ok : EXIT.failed;
}

const shownBad = (bad: BadRow | null) =>
  bad === null ? null : { audit_id: bad.auditId, org_id: bad.orgId, position: bad.position, reason: bad.reason };

const badText = ({ orgId, auditId, position, reason }: BadRow): string =>
  auditId === null
    ? `Position ${position} of the chain of org ${orgId} is bad: ${reason}.`
    : `Row ${auditId}, position ${position} of the chain of org ${orgId}, is bad: ${reason}.`;

const LONGEST_LINE = 16 * 1_048_576;
const LINE_FEED = 0x0a;

/** Splits a file at line feeds only: text inside of a row may contain other characters that end lines elsewhere. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let start = 0;
      for (let end = rest.indexOf(LINE_FEED); end >= 0; end = rest.indexOf(LINE_FEED, start)) {
        yield rest.toString('utf8', start, end);
        start = end + 1;
      }
      rest = rest.subarray(start);
      if (rest.length > LONGEST_LINE)
        throw new AppError('INVALID_REQUEST', { message: `${file} is not an audit export: a line is too long.` });
    }
  } catch (error) {
    throw isMissing(error)
      ? new AppError('INVALID_REQUEST', { message: `There is no file ${file}. Check its name.`, cause: error })
      : error;
  }
  if (rest.length > 0) yield rest.toString('utf8');
}

const isMissing = (error: unknown): boolean => (error as { code?: unknown }).code === 'ENOENT';

function refuseFile(cause: unknown, file: string): never {
  const exists = (cause as { code?: unknown }).code === 'EEXIST';
  const message = exists
    ? `The file ${file} exists. Choose another name, or remove it.`
    : `The file ${file} cannot be written: ${String(cause)}`;
  throw new AppError('INVALID_REQUEST', { message, cause });
}

function readTime(text: string | undefined, option: string): Date | null {
  if (text === undefined) return null;
  const read = parseTimestamp(text);
  if (read.ok) return read.date;
  throw new UsageError(`--${option} is not a time: ${read.message}.`, 'audit list');
}
