import type { FetchTask, Pair } from '../core/ingest/fetch-task.ts';

/** S3 allows 2 KB of metadata. The rest is for what the handler and the download add. */
const MAX_TAG_BYTES = 1_024;
const NAME = /^[a-z0-9][a-z0-9._-]*$/;
/** What a download says about itself. */
const OWN_NAMES: ReadonlySet<string> = new Set(['sha256', 'source-etag']);
const CONTENT_TYPE = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;
const ETAG = /^[\x21-\x7e]{1,200}$/;

/** The tags that an object store can keep, with names in lower case, and the names of the others. */
export function storableTags(tags: readonly Pair[]): { readonly kept: readonly Pair[]; readonly dropped: readonly string[] } {
  const kept: Pair[] = [];
  const dropped: string[] = [];
  let bytes = 0;
  for (const [given, value] of tags) {
    const name = given.toLowerCase();
    // Three bytes for each byte that must be escaped.
    const size = name.length + Buffer.byteLength(value) + 2 * Buffer.byteLength(value.replace(/[\x20-\x24\x26-\x7e]/g, ''));
    if (!NAME.test(name) || OWN_NAMES.has(name) || !value.isWellFormed() || bytes + size > MAX_TAG_BYTES) {
      dropped.push(given);
      continue;
    }
    bytes += size;
    kept.push([name, value]);
  }
  return { kept, dropped };
}

/** What the handler chose wins over the tags of the resource, of which it has a copy. The download itself says what it stored. */
export function metadataOf(task: FetchTask, version: { sha256: string; etag: string | undefined }): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>(storableTags(task.tags).kept);
  const tags = new Map(task.tags);
  for (const [name, value] of task.storage.metadata) if (tags.get(name) !== value) metadata.set(name.toLowerCase(), value);
  for (const name of OWN_NAMES) metadata.delete(name);
  metadata.set('sha256', version.sha256);
  if (version.etag !== undefined && ETAG.test(version.etag)) metadata.set('source-etag', version.etag);
  return metadata;
}

/** The content type that the server sent, if it is one. */
export function contentTypeOf(headers: Readonly<Record<string, string>>): string | null {
  const type = headers['content-type'];
  return type !== undefined && CONTENT_TYPE.test(type) ? type : null;
}
