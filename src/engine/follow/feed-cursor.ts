import { AppError } from '../../core/errors.ts';
import { FIRST_LINE, type LogPosition } from '../../core/job-log.ts';
import type { Seal } from '../../ledger/driver/seal.ts';
import type { FeedEvent, FeedPosition } from '../../ledger/history/read-feed.ts';

export type { FeedEvent, FeedPosition } from '../../ledger/history/read-feed.ts';

/** Followers of an org share the objects of its events, so that an id is written once for all of them. */
const written = new WeakMap<FeedEvent, string>();

/** Writes and reads the ids by which clients of one org resume its feed. A position contains counters that all orgs share. */
export class FeedCursors {
  readonly #seal: Seal;
  readonly #scope: string;

  constructor(seal: Seal, orgId: string) {
    this.#seal = seal;
    this.#scope = `EVENTS ${orgId}`;
  }

  /** `lines` is the last log line that a follower of one job knows. */
  write({ txid, recordId, jobSeq, n }: FeedPosition, lines: LogPosition = FIRST_LINE): string {
    const known = lines.leaseSeq === 0 ? '' : ` ${lines.leaseSeq} ${lines.n}`;
    return this.#seal.close(this.#scope, `${txid} ${recordId} ${jobSeq} ${n}${known}`);
  }

  idOf(event: FeedEvent): string {
    const known = written.get(event);
    if (known !== undefined) return known;
    const id = this.write(event);
    written.set(event, id);
    return id;
  }

  /** The filter is not part of the scope: a client may resume with another one. */
  read(cursor: string): FeedPosition & { readonly lines: LogPosition } {
    const content = this.#seal.open(this.#scope, cursor);
    if (content === null) throw invalidFeedCursor();
    const [txid, recordId, jobSeq, n, leaseSeq = 0, line = 0] = content.split(' ').map(Number) as [number, number, number, number];
    return { txid, recordId, jobSeq, n, lines: { leaseSeq, n: line } };
  }
}

export function invalidFeedCursor(): AppError {
  const message = 'last_event_id must be the id of an event of this feed';
  const details = [{ field: 'last_event_id', code: 'INVALID_CURSOR', message }];
  return new AppError('INVALID_REQUEST', { message, details });
}
