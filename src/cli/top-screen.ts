import type { Overview } from '../services/queues/overview.ts';
import { ageText } from './duration-text.ts';
import { cellOf, cutToWidth } from './text-width.ts';
import { visibleLine } from './visible-text.ts';

export type ScreenSize = { readonly columns: number; readonly rows: number };

export type Shown = { readonly at: Date; readonly overview: Overview; readonly org: string | null };

export type TopScreen = {
  /** Null until the database has responded. */
  readonly shown: Shown | null;
  /** Why what is shown is out of date; no lines if it is not. */
  readonly notice?: readonly string[];
};

/** Used if the output is not a terminal, or the terminal does not report its size. */
export const PLAIN_SIZE: ScreenSize = { columns: 80, rows: 24 };
const SMALLEST: ScreenSize = { columns: 40, rows: 10 };

/** The lines of the live view, at most as many and as long as the screen has room for. */
export function topScreen({ shown, notice = [] }: TopScreen, size: ScreenSize): string[] {
  const columns = Math.max(SMALLEST.columns, size.columns);
  const rows = Math.max(SMALLEST.rows, size.rows);
  const lines = [...notice, ...(shown === null ? [] : overviewLines(shown, { columns, rows: rows - notice.length }))];
  return lines.map((line) => cutToWidth(visibleLine(line), columns));
}

function overviewLines(shown: Shown, { columns, rows }: ScreenSize): string[] {
  const { overview } = shown;
  const head = [headLine(shown), rateLine(overview), ''];
  const sections = sharedRows(
    [queueLines(overview, columns), typeLines(overview), workerLines(overview), failureLines(overview)],
    rows - head.length - 1,
  );
  return [...head, ...sections.flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]))];
}

/** Every section keeps its heading and two rows. The rest goes to those that need more, from the top. */
function sharedRows(sections: readonly string[][], room: number): string[][] {
  const shown = sections.filter((lines) => lines.length > 0);
  const least = shown.map((lines) => Math.min(lines.length, 3));
  let left = room - (shown.length - 1) - least.reduce((sum, rows) => sum + rows, 0);
  const given = shown.map((lines, index) => {
    const more = Math.max(0, Math.min(left, lines.length - (least[index] as number)));
    left -= more;
    return (least[index] as number) + more;
  });
  return shown.map((lines, index) => cut(lines, given[index] as number));
}

function cut(lines: string[], rows: number): string[] {
  if (lines.length <= rows) return lines;
  return [...lines.slice(0, Math.max(1, rows - 1)), `  … and ${lines.length - rows + 1} more`];
}

function headLine({ at, overview: { workers, queues }, org }: Shown): string {
  const alive = workers.filter(({ status }) => status === 'alive').length;
  const slots = workers.reduce((sum, worker) => sum + worker.slots, 0);
  const running = workers.reduce((sum, worker) => sum + worker.running, 0);
  const waiting = queues.reduce((total, queue) => total + queue.waiting, 0);
  const oldest = Math.max(-1, ...queues.map(({ oldestWaitingMs }) => oldestWaitingMs ?? -1));
  const age = oldest < 0 ? '' : `, oldest ${ageText(oldest)}`;
  const scope = org === null ? 'all orgs' : `org ${cutToWidth(visibleLine(org), 20)}`;
  return `${at.toISOString().slice(11, 19)} UTC  ${scope}  workers ${alive}  slots ${running}/${slots}  waiting ${waiting}${age}`;
}

function rateLine({ rates }: Overview): string {
  const sum = (member: 'submitted' | 'completed' | 'failed' | 'retried') => rates.reduce((total, each) => total + each[member], 0);
  return `per second: in ${rate(sum('submitted'))}  done ${rate(sum('completed'))}  retried ${rate(sum('retried'))}  failed ${rate(sum('failed'))}`;
}

function queueLines({ queues }: Overview, columns: number): string[] {
  const busy = queues.filter(({ waiting, running, pausedAt }) => waiting + running > 0 || pausedAt !== null);
  const most = Math.max(1, ...busy.map(({ waiting }) => waiting));
  const width = Math.max(4, columns - 62);
  const rows = busy
    .sort((a, b) => b.waiting + b.running - (a.waiting + a.running) || (a.name < b.name ? -1 : 1))
    .map(({ name, waiting, running, oldestWaitingMs, pausedAt }) =>
      [
        cellOf(name, 22),
        String(waiting).padStart(9),
        String(running).padStart(9),
        (oldestWaitingMs === null ? '' : ageText(oldestWaitingMs)).padStart(8),
        pausedAt === null ? '' : 'paused',
        '█'.repeat(Math.round((waiting / most) * width)),
      ].join(' '),
    );
  return rows.length === 0 ? ['QUEUES: nothing waits or runs'] : [`${'QUEUE'.padEnd(22)}   WAITING   RUNNING   OLDEST`, ...rows];
}

function typeLines({ rates }: Overview): string[] {
  const rows = rates.map(({ type, submitted, completed, retried, failed }) =>
    [cellOf(type, 32), ...[submitted, completed, retried, failed].map((each) => rate(each).padStart(9))].join(' '),
  );
  return rows.length === 0 ? [] : [`${'TYPE'.padEnd(32)}      IN/S    DONE/S   RETRY/S    FAIL/S`, ...rows];
}

function workerLines({ workers }: Overview): string[] {
  const rows = [...workers]
    .sort((a, b) => b.running - a.running || (a.name < b.name ? -1 : 1))
    .map(({ name, status, running, slots, silentMs }) =>
      [cellOf(name, 32), status.padEnd(8), `${running}/${slots}`.padStart(9), `${ageText(silentMs)} ago`.padStart(12)].join(' '),
    );
  return rows.length === 0
    ? ['WORKERS: none. Start one with "millrace work".']
    : [`${'WORKER'.padEnd(32)} STATUS     RUNNING    HEARTBEAT`, ...rows];
}

function failureLines({ failures }: Overview): string[] {
  const rows = failures.map(
    ({ at, type, state, code, message }) =>
      `${at.toISOString().slice(11, 19)} ${state.padEnd(11)} ${cutToWidth(visibleLine(type), 20)} ${code}: ${message}`,
  );
  return rows.length === 0 ? ['FAILURES: none in the last hour'] : ['LAST FAILURES', ...rows];
}

const rate = (perSecond: number): string => (perSecond >= 100 ? String(Math.round(perSecond)) : perSecond.toFixed(1));
