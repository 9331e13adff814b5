// Runs in a separate thread, because a hash of a large file keeps a processor busy.
import { createHash, type Hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import type { HashAnswer, HashOrder } from './thread-hash.ts';

const hashes = new Map<number, Hash>();

function carryOut(order: HashOrder): HashAnswer {
  const hash = hashes.get(order.id) ?? createHash('sha256');
  hashes.set(order.id, hash);
  if (order.kind === 'update') {
    hash.update(order.bytes);
    return null;
  }
  return hash.copy().digest('hex');
}

parentPort?.on('message', (order: HashOrder) => {
  if (order.kind === 'forget') hashes.delete(order.id);
  else parentPort?.postMessage(carryOut(order));
});
