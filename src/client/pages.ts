import { pause } from './transport.ts';

type Page<T> = { items: readonly T[]; nextCursor: string | null };

const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 1_000;

/**
 * Yields the items of all pages. If a page is empty and its next cursor equals the cursor of the request, the server cannot
 * continue yet: a job that is still being submitted may sort before the next known job. The function then waits and repeats
 * the request.
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
