import type { Queryable } from './statement.ts';

/** Sends no further statement once the signal is aborted, but throws its reason. The statement in flight ends normally. */
export function abortable(db: Queryable, signal: AbortSignal | undefined): Queryable {
  if (signal === undefined) return db;
  return {
    isOurs: true,
    ...(db.outside === undefined ? {} : { outside: db.outside }),
    async query(config) {
      signal.throwIfAborted();
      return db.query(config);
    },
  };
}
