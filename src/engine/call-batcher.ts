import { AppError } from '../core/errors.ts';
import { type Batcher, type BatcherOptions, createBatcher } from '../ledger/driver/batcher.ts';

type CallBatcherOptions<Item, Result> = Pick<BatcherOptions<Item, Result>, 'send'> & {
  /** The message for a call that is refused because too many wait. */
  busy: string;
  maxWaitMs: number;
  maxItems?: number;
  maxWaiting?: number;
};

/** Batches the calls of many callers on two connections. A call that cannot be sent in time gets UNAVAILABLE. */
export function createCallBatcher<Item, Result>(options: CallBatcherOptions<Item, Result>): Batcher<Item, Result> {
  const refused = () => new AppError('UNAVAILABLE', { message: options.busy, retryAfterMs: 1_000 });
  const { send, maxWaitMs, maxItems = 200, maxWaiting = 5_000 } = options;
  return createBatcher({ send, maxWaitMs, maxItems, maxWaiting, maxInFlight: 2, overflow: refused, expired: refused });
}
