import pg from 'pg';
import { SESSION_BOUNDS, verifySession } from './session-bounds.ts';
import { type Queryable, run, statement } from './statement.ts';

const CHANNEL = 'millrace';
const TIMEOUT_MS = 2_000;

/** Through a pooler, LISTEN would succeed and no notification would ever arrive. */
class VerifiedClient extends pg.Client {
  override connect(): Promise<this>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<this> | undefined {
    if (callback !== undefined) {
      super.connect(callback);
      return undefined;
    }
    return super.connect().then(async () => {
      await verifySession(this, {});
      return this;
    });
  }
}

/** Creates a connection that receives hints after `listen`. */
export const newListener = (url: string): pg.Client =>
  new VerifiedClient({
    connectionString: url,
    application_name: 'millrace listener',
    keepAlive: true,
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
    options: SESSION_BOUNDS,
  });

/** A repeated call changes nothing and shows whether the server can still be reached. */
export async function listen(client: pg.Client): Promise<void> {
  await client.query(`LISTEN ${CHANNEL}`);
}

// A hint needs no durability, and a flush of the log would double its cost.
const NOTIFY = statement('notify', `SELECT set_config('synchronous_commit', 'off', true), pg_notify('${CHANNEL}', $1)`);

export async function notifyHints(db: Queryable, words: string): Promise<void> {
  await run(db, NOTIFY, [words]);
}
