/** One resource is downloaded by a job of this type. */
export const FETCH_TYPE = 'fetchbox.fetch';
/** Calls the handler of an ingest job after its last resource has ended. */
export const FINALIZE_TYPE = 'fetchbox.finalize';

/** A name and a value. Names come from users, so they are never keys of an object. */
export type Pair = readonly [name: string, value: string];

/** The payload of a `fetchbox.fetch` job: what a worker needs to download one resource. */
export type FetchTask = {
  /** The id of the ingest job. */
  readonly jobId: string;
  readonly jobType: string;
  readonly resourceId: string;
  readonly url: string;
  /** The headers of the configuration, of the resource and of the handler, combined. */
  readonly headers: readonly Pair[];
  /** The names of proxy pools, in the order in which they are tried. Empty: without a proxy. */
  readonly proxies: readonly string[];
  readonly storage: { readonly bucket: string; readonly key: string; readonly metadata: readonly Pair[] };
  readonly tags: readonly Pair[];
};

/** The result of a completed `fetchbox.fetch` job. */
export type FetchResult = {
  readonly httpStatus: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly contentType: string | null;
  readonly objectKey: string;
  readonly proxy: string | null;
  /** After redirects. */
  readonly url: string;
};

export const isPair = (value: unknown): value is Pair =>
  Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string');
