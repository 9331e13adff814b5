import { type Queryable, run, statement } from './statement.ts';

const CHANNEL = 'millrace';

export const listenText = `LISTEN ${CHANNEL}`;

const NOTIFY = statement('notify', `SELECT pg_notify('${CHANNEL}', $1)`);

export async function notifyHints(db: Queryable, words: string): Promise<void> {
  await run(db, NOTIFY, [words]);
}
