import type { Issue } from '../errors.ts';
import { Issues } from '../issues.ts';
import type { Pair } from './fetch-task.ts';

const MANIFEST_VERSION = 'v1';

export const RESOURCE_LIMITS = { idCharacters: 128, headers: 10, headerBytes: 1_024 } as const;

type ManifestResource = {
  readonly id: string;
  readonly url: string;
  readonly headers: readonly Pair[];
  readonly tags: readonly Pair[];
};

/** What a client submits to `POST /jobs`. */
export type Manifest = {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly resources: readonly ManifestResource[];
  readonly attributes: Readonly<Record<string, unknown>>;
};

export type ReadManifest = { readonly ok: true; readonly manifest: Manifest } | { readonly ok: false; readonly issues: readonly Issue[] };

/** Validates the body of a submission. Members that the manifest does not define are ignored; they stay in `manifest.json`. */
export function readManifest(body: unknown, { maxResources }: { maxResources: number }): ReadManifest {
  const issues = new Issues();
  if (!isObject(body)) {
    issues.add('body', 'INVALID_TYPE', 'must be a JSON object with manifest_version, metadata and resources');
    return { ok: false, issues: issues.list };
  }
  const { manifest_version: version, metadata, resources, attributes = {} } = body;
  if (version !== MANIFEST_VERSION) {
    const isAbsent = version === undefined;
    issues.add('manifest_version', isAbsent ? 'REQUIRED' : 'INVALID_VALUE', `${isAbsent ? 'is required and ' : ''}must be "v1"`);
  }
  if (!isObject(metadata)) {
    const isAbsent = metadata === undefined;
    issues.add('metadata', isAbsent ? 'REQUIRED' : 'INVALID_TYPE', `${isAbsent ? 'is required and ' : ''}must be a JSON object`);
  }
  if (!isObject(attributes)) issues.add('attributes', 'INVALID_TYPE', 'must be a JSON object, or left out');
  const read = readResources(resources, maxResources, issues);
  if (issues.list.length > 0 || !isObject(metadata) || !isObject(attributes)) return { ok: false, issues: issues.list };
  return { ok: true, manifest: { metadata, resources: read, attributes } };
}

function readResources(given: unknown, maxResources: number, issues: Issues): ManifestResource[] {
  if (!Array.isArray(given)) {
    const isAbsent = given === undefined;
    issues.add('resources', isAbsent ? 'REQUIRED' : 'INVALID_TYPE', `${isAbsent ? 'is required and ' : ''}must be a list of resources`);
    return [];
  }
  if (given.length < 1 || given.length > maxResources) {
    issues.add('resources', 'OUT_OF_RANGE', `must have 1 to ${maxResources} entries; this list has ${given.length}`);
    return [];
  }
  const places = new Map<string, number>();
  const read: ManifestResource[] = [];
  for (const [index, entry] of given.entries()) {
    if (issues.isFull) break;
    const resource = readResource(entry, `resources[${index}]`, issues);
    if (resource === null) continue;
    const first = places.get(resource.id);
    if (first === undefined) places.set(resource.id, index);
    else issues.add(`resources[${index}].id`, 'DUPLICATE', `must be unique in the manifest, but resources[${first}] has the same id`);
    read.push(resource);
  }
  return read;
}

function readResource(entry: unknown, field: string, issues: Issues): ManifestResource | null {
  if (!isObject(entry)) {
    issues.add(field, 'INVALID_TYPE', 'must be an object with an id and a url');
    return null;
  }
  const before = issues.list.length;
  const { id, url, headers = {}, tags = {} } = entry;
  checkId(id, `${field}.id`, issues);
  checkUrl(url, `${field}.url`, issues);
  const readHeaders = readTexts(headers, `${field}.headers`, issues);
  checkHeaders(readHeaders, `${field}.headers`, issues);
  const readTags = readTexts(tags, `${field}.tags`, issues);
  if (issues.list.length > before) return null;
  return { id: id as string, url: url as string, headers: readHeaders, tags: readTags };
}

function checkId(id: unknown, field: string, issues: Issues): void {
  if (typeof id !== 'string') issues.add(field, id === undefined ? 'REQUIRED' : 'INVALID_TYPE', 'is required and must be a string');
  else if (id === '') issues.add(field, 'REQUIRED', 'must not be empty');
  else if (charactersOf(id) > RESOURCE_LIMITS.idCharacters)
    issues.add(field, 'TOO_LONG', `must have at most ${RESOURCE_LIMITS.idCharacters} characters; this one has ${charactersOf(id)}`);
}

/** A character is a Unicode code point. */
function charactersOf(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Workers check the scheme, so that one wrong address fails one resource and not the whole job. */
function checkUrl(url: unknown, field: string, issues: Issues): void {
  if (typeof url !== 'string') issues.add(field, url === undefined ? 'REQUIRED' : 'INVALID_TYPE', 'is required and must be a string');
  else if (!URL.canParse(url)) issues.add(field, 'INVALID_VALUE', 'must be an absolute URL such as https://example.com/image.jpg');
}

/** More names than this are not read: a map of headers has at most ten, and a request could send a hundred thousand. */
const MOST_NAMES = 10_000;

function readTexts(given: unknown, field: string, issues: Issues): Pair[] {
  if (!isObject(given)) {
    issues.add(field, 'INVALID_TYPE', 'must be an object of strings, or left out');
    return [];
  }
  const pairs: Pair[] = [];
  for (const [name, value] of Object.entries(given)) {
    if (issues.isFull || pairs.length > MOST_NAMES) break;
    if (typeof value === 'string') pairs.push([name, value]);
    else issues.add(`${field}.${name}`, 'INVALID_TYPE', 'must be a string');
  }
  if (pairs.length > MOST_NAMES) issues.add(field, 'OUT_OF_RANGE', `must have at most ${MOST_NAMES} members`);
  return pairs;
}

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// Other characters could end the header and begin another one.
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function checkHeaders(headers: readonly Pair[], field: string, issues: Issues): void {
  if (headers.length > RESOURCE_LIMITS.headers) {
    issues.add(field, 'OUT_OF_RANGE', `must have at most ${RESOURCE_LIMITS.headers} keys; this map has ${headers.length}`);
    return;
  }
  for (const [name, value] of headers) {
    const problem = headerProblem(name, value);
    if (problem !== null) issues.add(`${field}.${name}`, problem.code, problem.message);
  }
}

/** Why a header cannot be sent, or null. */
export function headerProblem(name: string, value: string): { code: string; message: string } | null {
  if (!HEADER_NAME.test(name)) return { code: 'INVALID_VALUE', message: 'is not a name of an HTTP header' };
  if (Buffer.byteLength(value) > RESOURCE_LIMITS.headerBytes)
    return { code: 'TOO_LONG', message: `must have at most ${RESOURCE_LIMITS.headerBytes} bytes` };
  if (!HEADER_VALUE.test(value)) return { code: 'INVALID_VALUE', message: 'contains a character that an HTTP header cannot carry' };
  return null;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
