/** Runs the suite against the service that the environment names. `scripts/s3-conformance.ts` starts it. */
import { S3Store } from '../../src/objects/s3-store.ts';
import { describeStore } from './conformance.ts';
import { isRefusedByS3 } from './start-s3.ts';

const { S3_ENDPOINT, S3_REGION = 'us-east-1', S3_BUCKET = '', S3_ACCESS_KEY = '', S3_SECRET_KEY = '', S3_VIRTUAL_HOSTS } = process.env;

describeStore(`the service at ${S3_ENDPOINT}`, async () => {
  const store = new S3Store({
    endpoint: S3_ENDPOINT,
    region: S3_REGION,
    accessKeyId: S3_ACCESS_KEY,
    secretAccessKey: S3_SECRET_KEY,
    forcePathStyle: S3_VIRTUAL_HOSTS !== '1',
  });
  await store.check(S3_BUCKET);
  return { store, bucket: S3_BUCKET, refuses: isRefusedByS3, end: () => store.close() };
});
