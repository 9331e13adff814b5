import type { Database } from '../../ledger/driver/database.ts';
import { endUnreadSessions, findUnreadSessions } from '../../ledger/upkeep/unread-sessions.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';

const LOOK_EVERY_MS = 3_000;

/**
 * Ends sessions whose client reads nothing, because its process is frozen. Such a session would keep its locks, its snapshot and its place
 * in the notification queue. It is ended when two looks in a row found it at the same statement.
 */
export class SessionWatch extends LoopService {
  readonly #database: Database;
  #seen: ReadonlyMap<number, string> = new Map();

  constructor({ database, events }: { database: Database; events: EventHub }) {
    super({ name: 'session watch', events });
    this.#database = database;
  }

  async round(): Promise<number> {
    const { maintenance } = this.#database;
    const unread = await findUnreadSessions(maintenance);
    const stuck = unread.filter(({ pid, since }) => this.#seen.get(pid) === since);
    this.#seen = new Map(unread.map(({ pid, since }) => [pid, since]));
    if (stuck.length > 0) {
      const pids = stuck.map(({ pid }) => pid);
      await endUnreadSessions(maintenance, pids);
    }
    return LOOK_EVERY_MS;
  }
}
