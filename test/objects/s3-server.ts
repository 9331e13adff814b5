/**
 * A server that speaks the part of the S3 protocol that the store uses, as the reference describes it: objects become visible whole,
 * signatures are checked, parts below 5 MiB are refused, keys are listed in the order of their bytes. It keeps everything in memory,
 * and runs in a process of its own, so that tests can measure the memory of the client: `node s3-server.ts` prints its port.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isSigned } from './s3-signature.ts';

interface Stored {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly modifiedAt: Date;
  readonly headers: ReadonlyMap<string, string>;
}

interface Multipart {
  readonly key: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly parts: Map<number, Stored>;
  readonly startedAt: Date;
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
  }
}

const BUCKETS = ['conformance', 'other-bucket'];
const LEAST_PART_BYTES = 5 * 1024 * 1024;
const objects = new Map(BUCKETS.map((bucket) => [bucket, new Map<string, Stored>()]));
const multiparts = new Map<string, Multipart>();

/** Not the MD5 of the bytes, as in a bucket that encrypts objects with a key of its own. */
const quoted = (bytes: Uint8Array | string): string =>
  `"${createHash('sha256').update('sealed').update(bytes).digest('hex').slice(0, 32)}"`;
const xml = (text: string): string => text.replace(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`);
const element = (name: string, content: string): string => `<${name}>${content}</${name}>`;
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly bucket: Map<string, Stored>;
  readonly key: string;
  readonly body: Buffer;
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function describe(request: IncomingMessage): ReadonlyMap<string, string> {
  const kept = Object.entries(request.headers).filter(([name]) => name === 'content-type' || name.startsWith('x-amz-meta-'));
  return new Map(kept.map(([name, value]) => [name, String(value)]));
}

const store = (bytes: Buffer, headers: ReadonlyMap<string, string> = new Map()): Stored => ({
  bytes,
  etag: quoted(bytes),
  modifiedAt: new Date(),
  headers,
});

function sendXml({ response }: Call, root: string, content: string): void {
  response.setHeader('content-type', 'application/xml');
  response.end(`<?xml version="1.0" encoding="UTF-8"?>${element(root, content)}`);
}

function putObject({ request, response, bucket, key, body }: Call): void {
  const object = store(body, describe(request));
  bucket.set(key, object);
  response.setHeader('etag', object.etag).end();
}

function getObject({ request, response, bucket, key }: Call): void {
  const object = bucket.get(key);
  if (object === undefined) throw new Refusal(404, 'NoSuchKey');
  if ((request.headers['if-match'] ?? object.etag) !== object.etag) throw new Refusal(412, 'PreconditionFailed');
  const { length } = object.bytes;
  for (const [name, value] of object.headers) response.setHeader(name, value);
  response.setHeader('etag', object.etag).setHeader('last-modified', object.modifiedAt.toUTCString());
  const [, start, end] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  if (start === undefined) {
    response.setHeader('content-length', length).end(request.method === 'HEAD' ? undefined : object.bytes);
    return;
  }
  const last = Math.min(end === '' ? Number.POSITIVE_INFINITY : Number(end), length - 1);
  if (Number(start) > last) throw new Refusal(416, 'InvalidRange');
  response.statusCode = 206;
  response.setHeader('content-range', `bytes ${start}-${last}/${length}`).end(object.bytes.subarray(Number(start), last + 1));
}

function listObjects(call: Call): void {
  const { query, bucket } = call;
  const max = Math.min(Number(query.get('max-keys') ?? 1000), 1000);
  const after = query.get('start-after') ?? '';
  const keys = [...bucket.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '') && byBytes(key, after) > 0).sort(byBytes);
  const isUrl = query.get('encoding-type') === 'url';
  const contents = keys.slice(0, max).map((key) => {
    const { etag, modifiedAt, bytes } = bucket.get(key)!;
    const shown = isUrl ? encodeURIComponent(key).replaceAll('%20', '+').replaceAll('%2F', '/') : xml(key);
    const members = `${element('Key', shown)}${element('ETag', xml(etag))}${element('Size', `${bytes.length}`)}`;
    return element('Contents', `${members}${element('LastModified', modifiedAt.toISOString())}`);
  });
  const head = `${element('IsTruncated', `${keys.length > max}`)}${isUrl ? element('EncodingType', 'url') : ''}`;
  sendXml(call, 'ListBucketResult', `${head}${contents.join('')}`);
}

function multipartOf({ query, key }: Call): Multipart {
  const multipart = multiparts.get(query.get('uploadId') ?? '');
  if (multipart?.key !== key) throw new Refusal(404, 'NoSuchUpload');
  return multipart;
}

function createMultipart(call: Call): void {
  const id = randomUUID();
  multiparts.set(id, { key: call.key, headers: describe(call.request), parts: new Map(), startedAt: new Date() });
  sendXml(call, 'InitiateMultipartUploadResult', element('UploadId', id));
}

function putPart(call: Call): void {
  const number = Number(call.query.get('partNumber'));
  const { parts } = multipartOf(call);
  const source = call.request.headers['x-amz-copy-source'];
  if (source === undefined) {
    parts.set(number, store(call.body));
    call.response.setHeader('etag', quoted(call.body)).end();
    return;
  }
  const [bucket = '', ...key] = decodeURIComponent(String(source)).replace(/^\//, '').split('/');
  const original = objects.get(bucket)?.get(key.join('/'));
  if (original === undefined) throw new Refusal(404, 'NoSuchKey');
  if ((call.request.headers['x-amz-copy-source-if-match'] ?? original.etag) !== original.etag) throw new Refusal(412, 'PreconditionFailed');
  parts.set(number, store(original.bytes));
  sendXml(call, 'CopyPartResult', element('ETag', xml(original.etag)));
}

function completeMultipart(call: Call): void {
  const { parts, headers } = multipartOf(call);
  const named = [...call.body.toString().matchAll(/<Part>(.*?)<\/Part>/gs)].map(([, text = '']) => {
    const number = Number(/<PartNumber>(\d+)</.exec(text)?.[1]);
    const etag = /<ETag>(.*?)</.exec(text)?.[1]?.replaceAll('&quot;', '"');
    const part = parts.get(number);
    if (part === undefined || part.etag !== etag) throw new Refusal(400, 'InvalidPart');
    return part;
  });
  if (named.slice(0, -1).some(({ bytes }) => bytes.length < LEAST_PART_BYTES)) throw new Refusal(400, 'EntityTooSmall');
  const object = {
    ...store(Buffer.concat(named.map(({ bytes }) => bytes)), headers),
    etag: `${quoted(named.map(({ etag }) => etag).join()).slice(0, -1)}-${named.length}"`,
  };
  call.bucket.set(call.key, object);
  multiparts.delete(call.query.get('uploadId')!);
  sendXml(call, 'CompleteMultipartUploadResult', element('ETag', xml(object.etag)));
}

function listMultiparts(call: Call): void {
  const uploads = Array.from(multiparts, ([id, { key, startedAt }]) =>
    element('Upload', `${element('Key', xml(key))}${element('UploadId', id)}${element('Initiated', startedAt.toISOString())}`),
  );
  sendXml(call, 'ListMultipartUploadsResult', uploads.join(''));
}

function remove(call: Call): void {
  if (!call.query.has('uploadId')) call.bucket.delete(call.key);
  else if (multipartOf(call)) multiparts.delete(call.query.get('uploadId')!);
  call.response.writeHead(204).end();
}

function route(call: Call): void {
  const { query, key, request } = call;
  if (key === '' && request.method === 'HEAD') call.response.end();
  else if (key === '') query.has('uploads') ? listMultiparts(call) : listObjects(call);
  else if (request.method === 'GET' || request.method === 'HEAD') getObject(call);
  else if (request.method === 'PUT') query.has('uploadId') ? putPart(call) : putObject(call);
  else if (request.method === 'POST') query.has('uploads') ? createMultipart(call) : completeMultipart(call);
  else remove(call);
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const body = await bodyOf(request);
    // As services do that know none of the newer checksums.
    if (Object.keys(request.headers).some((name) => /^x-amz-(?:trailer|checksum|sdk-checksum)/.test(name)))
      throw new Refusal(501, 'NotImplemented');
    if (!isSigned(request, body)) throw new Refusal(403, 'SignatureDoesNotMatch');
    const [path = '', query] = request.url!.split('?');
    const [, name = '', ...segments] = path.split('/');
    const bucket = objects.get(name);
    if (bucket === undefined) throw new Refusal(404, 'NoSuchBucket');
    route({ request, response, query: new URLSearchParams(query), bucket, key: decodeURIComponent(segments.join('/')), body });
  } catch (error) {
    if (request.destroyed && !request.complete) return;
    response.statusCode = error instanceof Refusal ? error.status : 500;
    const code = error instanceof Refusal ? error.message : 'InternalError';
    response.end(request.method === 'HEAD' ? undefined : element('Error', element('Code', code)));
  }
}

const server = createServer((request, response) => void respond(request, response));
server.listen(0, '127.0.0.1', () => process.send?.(server.address()));
process.once('disconnect', () => process.exit());
