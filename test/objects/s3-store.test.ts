import { S3Store } from '../../src/objects/s3-store.ts';
import { describeStore } from './conformance.ts';
import { isRefusedByS3, startS3 } from './start-s3.ts';

describeStore('an S3 service', async () => {
  const { options, stop } = await startS3();
  const store = new S3Store(options);
  return {
    store,
    bucket: 'conformance',
    refuses: isRefusedByS3,
    end: async () => {
      await store.close();
      await stop();
    },
  };
});
