import { createHash } from 'node:crypto';
import { mulberry32 } from '../core/execution/definition.ts';
import { PermanentError } from '../core/handler-errors.ts';

export type ProduceParams = {
  readonly seed: number;
  /** The total of all outputs. */
  readonly bytes: number;
  readonly outputs: number;
};

export type Produce = (params: ProduceParams) => Iterable<Uint8Array>;

export type ExecutionOutput = {
  readonly bytes: number;
  readonly outputs: number;
  /** `sha256:` and the hash of all bytes in order. */
  readonly digest: string;
};

/** Splits the bytes evenly; the first outputs get the remainder. */
export function* produceOutputs({ seed, bytes, outputs }: ProduceParams): Generator<Uint8Array> {
  const size = Math.floor(bytes / outputs);
  const larger = bytes % outputs;
  const random = mulberry32(seed);
  for (let output = 0; output < outputs; output++) {
    const length = size + (output < larger ? 1 : 0);
    const words = new Uint32Array(Math.ceil(length / 4));
    for (let at = 0; at < words.length; at++) words[at] = random() * 2 ** 32;
    yield new Uint8Array(words.buffer, 0, length);
  }
}

/** Keeps the size and the digest, not the bytes. Refuses outputs that differ from the definition. */
export function collectOutput(params: ProduceParams, produce: Produce): ExecutionOutput {
  const hash = createHash('sha256');
  let bytes = 0;
  let outputs = 0;
  try {
    for (const output of produce(params)) {
      hash.update(output);
      bytes += output.byteLength;
      outputs++;
    }
  } catch (cause) {
    throw new PermanentError('the work produced no output', { code: 'OUTPUT_MISSING', cause });
  }
  if (outputs === 0) throw new PermanentError('the work produced no output', { code: 'OUTPUT_MISSING' });
  if (bytes === params.bytes && outputs === params.outputs) {
    return { bytes, outputs, digest: `sha256:${hash.digest('hex')}` };
  }
  const message = `the work produced ${bytes} bytes in ${outputs} outputs instead of ${params.bytes} in ${params.outputs}`;
  throw new PermanentError(message, { code: 'OUTPUT_INVALID' });
}
