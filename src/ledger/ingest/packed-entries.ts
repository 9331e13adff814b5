/** What a row of a stream holds: one entry, or several of one job. */
export type Pack = {
  readonly stream: string;
  readonly jobId: string;
  readonly orgId: string;
  /** How many. */
  readonly entries: number;
  /** The time of the last entry; null: the time of the statement. */
  readonly at: Date | null;
  /** JSON, as migration 0045 describes it. */
  readonly body: string;
};

export type EntryToPack = {
  readonly stream: string;
  readonly jobId: string;
  readonly orgId?: string;
  readonly at?: Date;
  readonly body: Readonly<Record<string, unknown>>;
};

/** A reader of one entry reads the whole row. */
const MOST_ENTRIES = 200;
/** Alerts look into the bodies of these entries. */
const NEVER_PACKED = 'jobs.dlq';

/**
 * Packs neighbours of one stream and one job. An entry costs PostgreSQL its row, three entries of indexes, and the same again when it gets its
 * offset. For the tasks and lines of a small download that was a third of the time of the database.
 */
export function packed(entries: readonly EntryToPack[]): Pack[] {
  const packs: Pack[] = [];
  for (let from = 0; from < entries.length; ) {
    const to = endOfPack(entries, from);
    packs.push(packOf(entries, from, to));
    from = to;
  }
  return packs;
}

function endOfPack(entries: readonly EntryToPack[], from: number): number {
  const first = entries[from] as EntryToPack;
  if (first.stream === NEVER_PACKED) return from + 1;
  const most = Math.min(entries.length, from + MOST_ENTRIES);
  let to = from + 1;
  while (to < most && entries[to]?.jobId === first.jobId && entries[to]?.stream === first.stream) to++;
  return to;
}

function packOf(entries: readonly EntryToPack[], from: number, to: number): Pack {
  const { stream, jobId, orgId = '' } = entries[from] as EntryToPack;
  const { at = null, body } = entries[to - 1] as EntryToPack;
  const row = { stream, jobId, orgId, entries: to - from, at };
  if (to - from === 1) return { ...row, body: JSON.stringify(body) };
  const pairs = entries.slice(from, to).map((entry) => `[${entry.at?.getTime() ?? null},${JSON.stringify(entry.body)}]`);
  return { ...row, body: `[${pairs.join()}]` };
}
