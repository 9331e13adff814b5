const KIBIBYTE = 1_024;
const MEBIBYTE = 1_024 * KIBIBYTE;

/** The largest body of a request that contains no payload. */
export const SMALL_BODY_BYTES = 256 * KIBIBYTE;

const BATCH_BYTES = 32 * MEBIBYTE;

/**
 * The largest body that submits one job. A payload counts without escapes, and `\u00e9` has three times as many bytes as `é`. The other
 * members fit into a small body.
 */
export const submissionBytes = (payloadBytes: number): number => 3 * payloadBytes + SMALL_BODY_BYTES;

/** The largest body that submits many jobs. */
export const batchBytes = (payloadBytes: number): number => Math.max(BATCH_BYTES, submissionBytes(payloadBytes));

/** A caller leaves a third of the memory free for others (`http/shared/body-budget.ts`), and a batch may need its size twice. */
const BATCHES_IN_MEMORY = 3;

export const DEFAULT_BODY_MEMORY = BATCHES_IN_MEMORY * BATCH_BYTES;

export type BodySizes = {
  readonly payloadBytes: number;
  /** The operator's limit for every body; null without one. */
  readonly bodyBytes: number | null;
};

/** The smallest memory for bodies in which the largest body fits, plain or compressed. */
export const leastBodyMemory = ({ payloadBytes, bodyBytes }: BodySizes): number =>
  BATCHES_IN_MEMORY * Math.min(batchBytes(payloadBytes), bodyBytes ?? Number.POSITIVE_INFINITY);
