import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { FIRST_LINE, LOG_LEVELS, type LogLevel, type LogLine, type LogPosition } from '../../core/job-log.ts';
import type { Owner } from '../../core/owner.ts';
import { readWord } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { type Seal, sealOf } from '../../ledger/driver/seal.ts';
import { readJobLogs, type StoredLine } from '../../ledger/reads/job-logs.ts';

/** A page of the log lines of a job. */
export type LogPage = {
  /** The id of the job. */
  readonly jobId: string;
  /** Oldest first. */
  readonly lines: readonly LogLine[];
  /** Pass it as `cursor` to read the lines after these. Null if there are none now. */
  readonly nextCursor: string | null;
};

export type ReadLogsParams = Owner & {
  id: string;
  levels?: readonly LogLevel[];
  cursor?: string | null;
  limit?: number;
};

const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 100;

/** Returns log lines of a job, oldest first, or null if the owner has no such job. */
export async function readLogs(engine: Engine, params: ReadLogsParams): Promise<LogPage | null> {
  const { orgId, projectId, levels = LOG_LEVELS, cursor, limit = DEFAULT_LIMIT } = params;
  check(levels, limit);
  if (!isUuid(params.id)) return null;
  const jobId = params.id.toLowerCase();
  const seal = await sealOf(engine.database.api);
  const scope: CursorScope = { list: 'LOGS', orgId, filter: { jobId, levels } };
  const after = cursor == null ? FIRST_LINE : positionIn(cursor, seal, scope);
  const found = await readJobLogs(engine.database.reads.of(orgId), { orgId, projectId }, { jobId, after, levels, limit: limit + 1 });
  if (found === null) return null;
  const lines = found.slice(0, limit);
  const last = lines.at(-1);
  const nextCursor = found.length > limit && last !== undefined ? writePageCursor(seal, scope, [last.leaseSeq, last.n]) : null;
  return { jobId, lines: lines.map(withoutPosition), nextCursor };
}

function check(levels: readonly unknown[], limit: unknown): void {
  const issues = new Issues();
  if (!Array.isArray(levels)) issues.add('levels', 'INVALID_TYPE', 'must be a list');
  else for (const [index, level] of levels.entries()) readWord(level, { field: `levels[${index}]`, words: LOG_LEVELS }, issues);
  if (!Number.isSafeInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_LIMIT) {
    issues.add('limit', 'OUT_OF_RANGE', `must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  issues.throwIfAny();
}

function positionIn(cursor: unknown, seal: Seal, scope: CursorScope): LogPosition {
  if (typeof cursor !== 'string') throw invalidCursor();
  const [leaseSeq, n] = readPageCursor(seal, scope, cursor);
  if (!Number.isSafeInteger(leaseSeq) || !Number.isSafeInteger(n)) throw invalidCursor();
  return { leaseSeq: leaseSeq as number, n: n as number };
}

const withoutPosition = ({ leaseSeq: _, n: __, ...line }: StoredLine): LogLine => line;
