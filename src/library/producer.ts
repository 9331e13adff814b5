import { openDatabase } from '../ledger/driver/database.ts';
import { type PublishedTasks, type PublishOptions, publishTasks, type TaskToPublish } from '../services/ingest/publish-tasks.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OpenParts } from './open-parts.ts';

/** Publishes downloads with a role of `millrace producers create`, which may do nothing else. */
export type TaskProducer = {
  /** Publishes 1 to 10000 tasks: all of them, or none if it throws. */
  publishTasks(tasks: readonly TaskToPublish[], options: PublishOptions): Promise<PublishedTasks>;
  /** Closes the connections. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** The call of an instance, which publishes for its org. */
export const publisherOf =
  ({ database, orgId }: Pick<OpenParts, 'database' | 'orgId'>, calls: OpenCalls): TaskProducer['publishTasks'] =>
  (tasks, options) =>
    calls.run(() => publishTasks(database.api, { orgId, tasks, options }));

/** Connects with the URL that `millrace producers create` printed. The connection is made by the first call. */
export function openProducer({ database: url }: { database: string }): TaskProducer {
  const database = openDatabase({ url, apiPool: 1 });
  const close = () => database.close();
  return {
    publishTasks: (tasks, options) => publishTasks(database.api, { orgId: null, tasks, options }),
    close,
    [Symbol.asyncDispose]: close,
  };
}
