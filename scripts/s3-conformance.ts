// Runs test/objects/conformance.ts against an S3 service of your choice. The bucket must exist. The suite writes about 1 GB, deletes
// most of it, and removes all unfinished uploads of the bucket, so give it a bucket of its own.
//
//     S3_ENDPOINT=http://127.0.0.1:9000 S3_BUCKET=conformance S3_ACCESS_KEY=... S3_SECRET_KEY=... node scripts/s3-conformance.ts
//
// S3_REGION is us-east-1 unless you set it. S3_VIRTUAL_HOSTS=1 puts the bucket into the name of the host.
import { startVitest } from 'vitest/node';

const missing = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY', 'S3_SECRET_KEY'].filter((name) => !process.env[name]);
if (missing.length > 0) {
  console.error(`Set ${missing.join(', ')} first. The head of scripts/s3-conformance.ts has an example.`);
  process.exit(2);
}

const vitest = await startVitest('test', process.argv.slice(2), {
  config: false,
  watch: false,
  include: ['test/objects/endpoint.conformance.ts'],
  testTimeout: 300_000,
});
await vitest.close();
