import { pause } from './transport.ts';

type Page<T> = { items: readonly T[]; nextCursor: string | null };

const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 1_000;

/**
 * Yields the items of all pages. An empty page with the same cursor means that more items may follow: jobs that are being
 * submitted right now can still sort before the newest known job.
 */
export async function* allPages<T>(params: {
  cursor: string | undefined;
  signal?: AbortSignal;
  read(cursor: string | undefined): Promise<Page<T>>;
}): AsyncGenerator<T, void> {
  let waitMs = FIRST_WAIT_MS;
  for (let { cursor } = params; ; ) {
    const { items, nextCursor } = await params.read(cursor);
    yield* items;
    if (nextCursor === null) return;
    if (items.length === 0 && nextCursor === cursor) {
      await pause(waitMs, params.signal);
      waitMs = Math.min(MAX_WAIT_MS, waitMs * 2);
    } else waitMs = FIRST_WAIT_MS;
    cursor = nextCursor;
  }
}
