import { isUuid } from '../core/ids.ts';
import type { ChangedNews, LineRange, NamedJob } from '../ledger/reads/job-news.ts';

/** Hints within this time share a notification, so a process sends at most ten a second, however often its handlers report. */
const GAP_MS = 100;
/** Per notification, whose text has room for 8000 bytes. The others follow in the next one. */
const MAX_PROGRESS = 100;
const MAX_RANGES = 50;
/** Hints beyond this are dropped. Followers then find the news when they next read the job. */
const MAX_PENDING = 5_000;
const RADIX = 36;

type Listener = (changed: ChangedNews) => void;

/**
 * Tells followers, in this process and in others, which jobs reported progress or stored log lines. It does not tell what: followers read
 * that from the ledger. A hint may be lost. Of several reports of one job, only the newest is read.
 */
export class NewsHints {
  readonly #send: (word: string) => void;
  readonly #listeners = new Set<Listener>();
  readonly #progress = new Map<number, NamedJob>();
  readonly #ranges = new Map<number, LineRange>();
  #gap: NodeJS.Timeout | null = null;

  constructor({ send }: { send(word: string): void }) {
    this.#send = send;
  }

  /** A job of this process reported progress. */
  progress({ orgId, seq }: NamedJob): void {
    if (this.#progress.size < MAX_PENDING) this.#progress.set(seq, { orgId, seq });
    this.#flushSoon();
  }

  /** Lines of an attempt of this process were stored. */
  lines(range: LineRange): void {
    const known = this.#ranges.get(range.leaseSeq);
    if (known !== undefined) this.#ranges.set(range.leaseSeq, { ...range, from: known.from });
    else if (this.#ranges.size < MAX_PENDING) this.#ranges.set(range.leaseSeq, range);
    this.#flushSoon();
  }

  /** Calls the listener for each hint. Returns a function that removes it. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Another process sent this word. */
  receive(word: string): void {
    if (this.#listeners.size > 0) this.#pass(fromWord(word));
  }

  #flushSoon(): void {
    if (this.#gap !== null) return;
    this.#flush();
    this.#gap = setTimeout(() => {
      this.#gap = null;
      if (this.#progress.size > 0 || this.#ranges.size > 0) this.#flushSoon();
    }, GAP_MS).unref();
  }

  #flush(): void {
    const progress = [...this.#progress.values()].slice(0, MAX_PROGRESS);
    const lines = [...this.#ranges.values()].slice(0, MAX_RANGES);
    for (const { seq } of progress) this.#progress.delete(seq);
    for (const { leaseSeq } of lines) this.#ranges.delete(leaseSeq);
    this.#send(toWord({ progress, lines }));
    this.#pass({ progress, lines });
  }

  #pass(changed: ChangedNews): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

/** Whether a hint names the job. */
export const isAbout = (seq: number, { progress, lines }: ChangedNews): boolean =>
  progress.some((job) => job.seq === seq) || lines.some((range) => range.seq === seq);

const toWord = ({ progress, lines }: ChangedNews): string =>
  [
    ...progress.map(({ orgId, seq }) => partOf(orgId, [seq])),
    ...lines.map(({ orgId, seq, leaseSeq, from, to }) => partOf(orgId, [seq, leaseSeq, from, to])),
  ].join(',');

const partOf = (orgId: string, numbers: readonly number[]): string => [orgId, ...numbers.map((number) => number.toString(RADIX))].join('.');

/** A word of a later version may have parts that this version does not know. It skips them. */
function fromWord(word: string): ChangedNews {
  const progress: NamedJob[] = [];
  const lines: LineRange[] = [];
  for (const part of word.split(',')) {
    const [orgId, ...digits] = part.split('.');
    const numbers = digits.map((each) => Number.parseInt(each, RADIX));
    const [seq, leaseSeq, from, to] = numbers as [number, number, number, number];
    if (!isUuid(orgId) || !numbers.every(Number.isSafeInteger)) continue;
    if (numbers.length === 1) progress.push({ orgId, seq });
    else if (numbers.length === 4) lines.push({ orgId, seq, leaseSeq, from, to });
  }
  return { progress, lines };
}
