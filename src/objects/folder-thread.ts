// Runs in a separate thread, because the calls of the file system block.
import { parentPort } from 'node:worker_threads';
import { type PublishOrder, type PublishResult, publishAll } from './folder-publish.ts';
import type { Answer, Batch, Done, SentOrder } from './folder-threads.ts';
import { codeOf, ObjectStoreError } from './object-store-error.ts';

const withBytes = ({ source, ...order }: SentOrder, bytes: ArrayBuffer): PublishOrder => ({
  ...order,
  source: source.kind === 'file' ? source : { kind: 'bytes', bytes: new Uint8Array(bytes, source.start, source.length) },
});

function answerOf(result: PublishResult): Answer {
  if (result.kind === 'published') return result;
  const { error } = result;
  const kind = error instanceof ObjectStoreError ? 'refused' : 'failed';
  return { kind, code: codeOf(error), message: error instanceof Error ? error.message : String(error) };
}

parentPort?.on('message', ({ orders, bytes }: Batch) => {
  const startMs = performance.now();
  const answers = publishAll((JSON.parse(orders) as SentOrder[]).map((order) => withBytes(order, bytes))).map(answerOf);
  const done: Done = { answers, tookMs: performance.now() - startMs };
  parentPort?.postMessage(done);
});
