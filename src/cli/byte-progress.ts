import { Transform } from 'node:stream';
import type { Output } from './output.ts';

const MEBIBYTE = 1_048_576;
/** Smaller files are done before anyone reads the line. */
const LARGE_BYTES = 8 * MEBIBYTE;
const EVERY_BYTES = 4 * MEBIBYTE;

export const sizeText = (bytes: number): string => (bytes < MEBIBYTE ? `${bytes} bytes` : `${(bytes / MEBIBYTE).toFixed(1)} MB`);

/** Passes bytes on and shows on a terminal how many there were. `total` is null if nobody knows. */
export function byteProgress(out: Output, verb: string, total: number | null): Transform {
  let [passed, shown] = [0, 0];
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      passed += chunk.length;
      if (passed - shown >= EVERY_BYTES && (total === null || total >= LARGE_BYTES)) {
        out.progress(`${verb} ${sizeText(passed)}${total === null ? '' : ` of ${sizeText(total)}`}`);
        shown = passed;
      }
      done(null, chunk);
    },
    flush(done) {
      if (shown > 0) out.progress('');
      done();
    },
  });
}
