import { MAX_BREADTH } from '../../core/dependencies.ts';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { decodePayload } from '../../core/payload.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { childResults, dependencyResults, findParent, type RelatedRow } from '../../ledger/reads/related-results.ts';
import type { RelatedResult, ResultsOptions } from './job-context.ts';

/** What one call may read. The handlers of a process share its memory. */
const MAX_RESULTS_BYTES = 16 * 1_048_576;
const MAX_OFFSET = 1_000_000;

const OPTIONS = membersOf<ResultsOptions>({ childrenOf: true, offset: true, limit: true });

/** Reads the results of the jobs that a job depends on, or of joined children. */
export async function readResults(
  db: Queryable,
  job: { orgId: string; seq: number },
  options: ResultsOptions = {},
): Promise<RelatedResult[]> {
  checkMembers(options, OPTIONS);
  const { childrenOf, offset = 0, limit = MAX_BREADTH } = options;
  checkCount('offset', offset, { from: 0, to: MAX_OFFSET });
  checkCount('limit', limit, { from: 1, to: MAX_BREADTH });
  const page = { offset, limit, maxBytes: MAX_RESULTS_BYTES };
  const rows =
    childrenOf === undefined
      ? await dependencyResults(db, job, page)
      : await childResults(db, { orgId: job.orgId, seq: await parentSeq(db, job, childrenOf) }, page);
  const fitting = rows.findIndex((row) => row.is_beyond);
  if (fitting !== -1) throw tooMuch(fitting);
  return rows.map(toResult);
}

async function parentSeq(db: Queryable, job: { orgId: string; seq: number }, id: string): Promise<number> {
  const seq = isUuid(id) ? await findParent(db, job, id) : null;
  if (seq !== null) return seq;
  throw new AppError('INVALID_REQUEST', { message: 'childrenOf must be the id of this job or of a job that it depends on.' });
}

function checkCount(name: string, value: number, { from, to }: { from: number; to: number }): void {
  if (Number.isInteger(value) && value >= from && value <= to) return;
  throw new AppError('INVALID_REQUEST', { message: `${name} must be an integer from ${from} to ${to}.` });
}

function tooMuch(fitting: number): AppError {
  return new AppError('INVALID_REQUEST', {
    message: `The results have more than ${MAX_RESULTS_BYTES} bytes together. Read them in pages: the first ${fitting} fit, so pass limit: ${fitting}, and continue with offset.`,
  });
}

function toResult({ id, job_type, state, result, result_bytes, error }: RelatedRow): RelatedResult {
  const json = result === null ? null : decodePayload({ kind: 'json', text: result });
  return { jobId: id, type: job_type, state, result: result_bytes === null ? json : new Uint8Array(result_bytes), error };
}
