import { pause } from './transport.ts';

type Page<T> = { items: readonly T[]; nextCursor: string | null };

const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 1_000;

/**
 * All items of all pages. A server that answers with nothing and the same cursor says that more may come in a moment: jobs that
 * are just being submitted could still come before the newest it knows.
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
