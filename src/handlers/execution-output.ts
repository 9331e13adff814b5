import { createHash } from 'node:crypto';
import { mulberry32 } from '../core/execution/definition.ts';
import { PermanentError } from '../core/handler-errors.ts';

export type ProduceParams = {
  readonly seed: number;
  /** All outputs together. */
  readonly bytes: number;
  readonly outputs: number;
};

/** Makes the outputs of an attempt, one after the other. */
export type Produce = (params: ProduceParams) => Iterable<Uint8Array>;

export type ExecutionOutput = {
  readonly bytes: number;
  readonly outputs: number;
  /** Of all bytes in their order, with the name of the algorithm before it. */
  readonly digest: string;
};

/** As equal in size as the bytes allow: what does not divide goes to the first ones. */
export function* produceOutputs({ seed, bytes, outputs }: ProduceParams): Generator<Uint8Array> {
  const least = Math.floor(bytes / outputs);
  const larger = bytes % outputs;
  const random = mulberry32(seed);
  for (let output = 0; output < outputs; output++) {
    const size = least + (output < larger ? 1 : 0);
    const words = new Uint32Array(Math.ceil(size / 4));
    for (let at = 0; at < words.length; at++) words[at] = random() * 2 ** 32;
    yield new Uint8Array(words.buffer, 0, size);
  }
}

/** Keeps the size and the digest, not the bytes. Refuses an output that is not what the definition promised. */
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
    throw new PermanentError('the work ended without an output', { code: 'OUTPUT_MISSING', cause });
  }
  if (outputs === 0) throw new PermanentError('the work ended without an output', { code: 'OUTPUT_MISSING' });
  if (bytes === params.bytes && outputs === params.outputs) {
    return { bytes, outputs, digest: `sha256:${hash.digest('hex')}` };
  }
  const promised = `${params.bytes} bytes in ${params.outputs}`;
  throw new PermanentError(`the work gave ${bytes} bytes in ${outputs} outputs instead of ${promised}`, {
    code: 'OUTPUT_INVALID',
  });
}
