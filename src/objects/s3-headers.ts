import { dictionary } from '../core/dictionary.ts';
import { type CheckedDescription, escapeMetadata, unescapeMetadata } from './object-names.ts';
import type { ObjectInfo, ObjectName } from './object-store.ts';

/** The metadata are sent as `x-amz-meta-<name>`. */
export function headersOf({ contentType, metadata }: CheckedDescription): { ContentType: string; Metadata: Record<string, string> } {
  return { ContentType: contentType, Metadata: dictionary(Array.from(metadata, ([name, value]) => [name, escapeMetadata(value)])) };
}

interface Response {
  readonly ETag?: string | undefined;
  readonly LastModified?: Date | undefined;
  readonly ContentType?: string | undefined;
  readonly Metadata?: Record<string, string> | undefined;
}

export function infoOf(name: ObjectName, size: number, response: Response): ObjectInfo {
  return {
    bucket: name.bucket,
    key: name.key,
    size,
    etag: plainEtag(response.ETag),
    modifiedAt: response.LastModified ?? new Date(0),
    contentType: response.ContentType ?? null,
    metadata: new Map(Object.entries(response.Metadata ?? {}).map(([name, value]) => [name.toLowerCase(), unescapeMetadata(value)])),
  };
}

/** Services quote etags in headers, and some do not in lists. */
export const plainEtag = (etag: string | undefined | null): string | null => etag?.replace(/^"|"$/g, '') ?? null;

/** The size of the whole object, from `bytes 0-9/1234`. */
export function totalSize(contentRange: string | undefined, contentLength: number | undefined): number {
  return Number(/\/(\d+)$/.exec(contentRange ?? '')?.[1] ?? contentLength ?? 0);
}
