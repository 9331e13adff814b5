import { createHash } from 'node:crypto';
import { artifactTooLarge, checksumMismatch } from '../../core/artifact.ts';
import type { ArtifactStorage } from './artifact-storage.ts';

/** The share of an org is asked for in steps of this size, because the length of a stream is not known before its end. */
const ADMITTED_AT_ONCE = 1_048_576;

export type MeasureParams = Pick<ArtifactStorage, 'maxBytes' | 'admit'> & {
  readonly orgId: string;
  readonly source: AsyncIterable<Uint8Array>;
  /** The checksum that the bytes must have, and the field that said so. */
  readonly expected?: { readonly sha256: string; readonly field: string };
};

/** The bytes of a source on their way to the store: counted, hashed and limited. An error ends the upload, and nothing is stored. */
export class MeasuredBytes implements AsyncIterable<Uint8Array> {
  size = 0;
  sha256 = '';
  /** What the source or a rule threw. Other errors are those of the store. */
  ownError: unknown = null;
  readonly #params: MeasureParams;
  #admitted = 0;

  constructor(params: MeasureParams) {
    this.#params = params;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const { source, maxBytes, expected } = this.#params;
    const hash = createHash('sha256');
    try {
      for await (const chunk of source) {
        this.size += chunk.byteLength;
        if (this.size > maxBytes) throw artifactTooLarge(maxBytes);
        if (this.size > this.#admitted) await this.#admit();
        hash.update(chunk);
        yield chunk;
      }
      this.sha256 = hash.digest('hex');
      if (expected !== undefined && expected.sha256 !== this.sha256) {
        throw checksumMismatch(expected.field, { announced: expected.sha256, actual: this.sha256 });
      }
    } catch (error) {
      this.ownError = error;
      throw error;
    }
  }

  async #admit(): Promise<void> {
    const { admit, orgId } = this.#params;
    const bytes = Math.max(ADMITTED_AT_ONCE, this.size - this.#admitted);
    this.#admitted += bytes;
    const refusal = await admit?.({ orgId, bytes });
    if (refusal != null) throw refusal;
  }
}
