/** Checks AWS Signature Version 4 on the bytes of the request, independently of the client under test. */
import { createHash, createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export const CREDENTIALS = { accessKeyId: 'test-key-id', secretAccessKey: 'test/secret+key' };

const hash = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

export function isSigned(request: IncomingMessage, body: Uint8Array): boolean {
  const [, access, date, region, signedHeaders, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? '',
    ) ?? [];
  if (access !== CREDENTIALS.accessKeyId || date === undefined || region === undefined || signedHeaders === undefined) return false;
  const payload = String(request.headers['x-amz-content-sha256']);
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== hash(body)) return false;
  const [path = '', query = ''] = request.url!.split('?');
  const canonical = [
    request.method,
    path,
    query.split('&').sort().join('&'),
    ...signedHeaders.split(';').map((name) => `${name}:${String(request.headers[name]).trim().replace(/ +/g, ' ')}`),
    '',
    signedHeaders,
    payload,
  ].join('\n');
  const scope = `${date}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, hash(canonical)].join('\n');
  const key = hmac(hmac(hmac(hmac(`AWS4${CREDENTIALS.secretAccessKey}`, date), region), 's3'), 'aws4_request');
  return hmac(key, text).toString('hex') === signature;
}
