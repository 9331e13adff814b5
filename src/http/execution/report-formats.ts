import type { Static } from 'typebox';
import { dictionary } from '../../core/dictionary.ts';
import { AppError } from '../../core/errors.ts';
import type { ReportRow } from '../../services/execution/execution-reports.ts';
import { type MediaRange, readAccept } from './accept.ts';
import { type RenderedRow, renderRow } from './render.ts';
import type { ExecutionTotals, REPORT_FORMATS } from './schemas/lists.ts';

export type ReportFormat = (typeof REPORT_FORMATS)[number];

type Rows = AsyncIterable<readonly ReportRow[]>;

type Format = { readonly mediaType: string; readonly contentType: string; text(rows: Rows): AsyncGenerator<string> };

// In order of preference, for a caller that has none.
export const FORMATS: Readonly<Record<ReportFormat, Format>> = {
  json: { mediaType: 'application/json', contentType: 'application/json; charset=utf-8', text: jsonText },
  ndjson: { mediaType: 'application/x-ndjson', contentType: 'application/x-ndjson; charset=utf-8', text: linesText },
  csv: { mediaType: 'text/csv', contentType: 'text/csv; charset=utf-8; header=present', text: csvText },
};

/** The format of the query; without one, the format with the highest weight in the Accept header. */
export function chooseFormat(named: ReportFormat | undefined, accept: string | undefined): ReportFormat {
  if (named !== undefined || accept === undefined) return named ?? 'json';
  const ranges = readAccept(accept);
  const formats = Object.keys(FORMATS) as ReportFormat[];
  const wanted = formats.map((format) => ({ format, weight: weightOf(FORMATS[format].mediaType, ranges) }));
  return wanted.reduce((best, each) => (each.weight > best.weight ? each : best)).format;
}

/** The weight of the most specific range that covers the type. */
function weightOf(mediaType: string, ranges: readonly MediaRange[]): number {
  const specificity = [mediaType, `${mediaType.split('/')[0]}/*`, '*/*'];
  for (const name of specificity) {
    const range = ranges.find(({ type }) => type === name);
    if (range !== undefined) return range.weight;
  }
  return 0;
}

export function refuseEvents(format: ReportFormat, withEvents: boolean): void {
  if (format !== 'csv' || !withEvents) return;
  const message = 'events are not available in CSV: use json or ndjson, or omit events';
  throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'events', code: 'NOT_IN_CSV', message }] });
}

async function* jsonText(rows: Rows): AsyncGenerator<string> {
  const totals: Static<typeof ExecutionTotals> = {
    jobs: 0,
    by_state: dictionary(),
    by_outcome: dictionary(),
    by_work_kind: dictionary(),
  };
  yield '{"reports":[';
  for await (const page of rows) {
    const rendered = page.map(renderRow);
    const separator = totals.jobs === 0 ? '' : ',';
    for (const row of rendered) count(totals, row);
    if (rendered.length > 0) yield separator + rendered.map((row) => JSON.stringify(row)).join(',');
  }
  yield `],"totals":${JSON.stringify(totals)}}`;
}

function count(totals: Static<typeof ExecutionTotals>, row: RenderedRow): void {
  const add = (counts: Record<string, number>, name: string | null) => {
    if (name !== null) counts[name] = (counts[name] ?? 0) + 1;
  };
  totals.jobs++;
  add(totals.by_state, row.state);
  add(totals.by_outcome, row.outcome);
  add(totals.by_work_kind, row.work_kind);
}

async function* linesText(rows: Rows): AsyncGenerator<string> {
  for await (const page of rows) yield page.map((row) => `${JSON.stringify(renderRow(row))}\n`).join('');
}

const COLUMNS = [
  'job_id',
  'type',
  'work_kind',
  'state',
  'outcome',
  'attempt',
  'created_at',
  'execution_at',
  'updated_at',
  'started_at',
  'finished_at',
  'duration_ms',
] as const;

async function* csvText(rows: Rows): AsyncGenerator<string> {
  yield `${COLUMNS.join(',')},failure_code,failure_message\r\n`;
  for await (const page of rows) yield page.map((row) => csvLine(renderRow(row))).join('');
}

function csvLine(row: RenderedRow): string {
  const values = [...COLUMNS.map((column) => row[column]), row.failure?.code, row.failure?.message];
  return `${values.map(csvValue).join(',')}\r\n`;
}

function csvValue(value: string | number | null | undefined): string {
  const text = String(value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
