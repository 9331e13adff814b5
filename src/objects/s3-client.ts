import { S3Client } from '@aws-sdk/client-s3';
import { ObjectStoreError } from './object-store-error.ts';

export interface S3Options {
  /** Left out for the service of Amazon. */
  readonly endpoint?: string | undefined;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Whether the bucket is in the path (`https://host/bucket/key`) and not in the name of the host. Most other services need it. */
  readonly forcePathStyle?: boolean | undefined;
}

const CONNECT_MS = 5_000;
/** How long a connection may be silent, and how long a request may take until its response begins. */
const SILENCE_MS = 60_000;
const REQUEST_MS = 300_000;
const MAX_SOCKETS = 64;
/** One try and two more. Jobs are retried anyway, after a longer time. */
const MAX_ATTEMPTS = 3;

export function createClient({ endpoint, region, accessKeyId, secretAccessKey, forcePathStyle = false }: S3Options): S3Client {
  const agent = { keepAlive: true, maxSockets: MAX_SOCKETS };
  return new S3Client({
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: MAX_ATTEMPTS,
    // Since 2025 the client adds checksums in trailers by default, which other services than Amazon's often refuse.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      socketTimeout: SILENCE_MS,
      requestTimeout: REQUEST_MS,
      throwOnRequestTimeout: true,
      httpAgent: agent,
      httpsAgent: agent,
    },
    ...(endpoint === undefined ? {} : { endpoint: checkEndpoint(endpoint) }),
  });
}

/** Credentials in the address would appear in errors and logs. */
function checkEndpoint(endpoint: string): string {
  const url = URL.parse(endpoint);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return endpoint;
  throw new ObjectStoreError('INVALID_NAME', 'the endpoint of the store must be an http or https address without credentials');
}
