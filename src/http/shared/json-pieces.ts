import { nextTurn, Turns } from '../../core/turns.ts';
import { type Entry, JsonScan } from './json-scan.ts';

const SCANNED_AT_ONCE = 1_048_576;
/** A value costs about as much as this many bytes of a string. */
const BYTES_PER_VALUE = 16;
/** Below 10 ms, even for a text that consists of brackets. */
const WORK_PER_TURN = 524_288;

/** What one call of the parser may be given. */
export type PieceLimits = { readonly bytes: number; readonly values: number };

/** The parser and the checks of each piece. They throw what the caller is told. */
export type PieceReader = {
  /** `path` is where the piece is in the whole, for messages. */
  read(text: string, path: string): unknown;
  refuseLarge(path: string): Error;
  refuseMany(path: string): Error;
};

/**
 * Parses a large JSON text in pieces, and gives way between them: each entry of a list that is a member of the whole, such as the jobs of
 * a batch, and then the rest. The result is that of JSON.parse.
 */
export async function parseInPieces(
  bytes: Buffer,
  { scan, limits, reader }: { scan: JsonScan; limits: PieceLimits; reader: PieceReader },
): Promise<unknown> {
  const turns = new Turns(WORK_PER_TURN);
  const entries = scan.entries.filter((entry) => !isBlank(bytes, entry));
  const rest = textWithout(bytes, entries);
  const restValues = scan.values - entries.reduce((sum, { values }) => sum + values, 0);
  if (rest.length > limits.bytes) throw reader.refuseLarge('');
  if (restValues > limits.values) throw reader.refuseMany('');
  const whole = reader.read(rest, '');
  const read = async (entry: Entry, path: string): Promise<unknown> => {
    if (entry.end - entry.start > limits.bytes) throw reader.refuseLarge(path);
    if (entry.values > limits.values) throw reader.refuseMany(path);
    await turns.spend(entry.end - entry.start + entry.values * BYTES_PER_VALUE);
    return reader.read(bytes.toString('utf8', entry.start, entry.end), path);
  };
  const unread = new Set(entries.keys());
  for (const [name, list] of listsIn(whole)) {
    for (const [index, place] of list.entries()) {
      list[index] = await read(entries[place as number] as Entry, `${name}[${index}]`);
      unread.delete(place as number);
    }
  }
  // A name that is given twice has its last value. The first must be JSON as well.
  for (const place of unread) await read(entries[place] as Entry, '');
  return whole;
}

/** Scans in turns. */
export async function scanInTurns(bytes: Buffer): Promise<JsonScan> {
  const scan = new JsonScan(bytes, { withEntries: true });
  while (scan.advance(SCANNED_AT_ONCE)) await nextTurn();
  return scan;
}

function isBlank(bytes: Buffer, { start, end }: Entry): boolean {
  for (let at = start; at < end; at++) if ((bytes[at] as number) > 0x20) return false;
  return true;
}

/** The text with the number of each entry in its place. */
function textWithout(bytes: Buffer, entries: readonly Entry[]): string {
  const parts: string[] = [];
  let at = 0;
  for (const [number, { start, end }] of entries.entries()) {
    parts.push(bytes.toString('utf8', at, start), String(number));
    at = end;
  }
  parts.push(bytes.toString('utf8', at));
  return parts.join('');
}

function listsIn(whole: unknown): [name: string, list: unknown[]][] {
  if (typeof whole !== 'object' || whole === null) return [];
  return Object.entries(whole).filter((member): member is [string, unknown[]] => Array.isArray(member[1]));
}
