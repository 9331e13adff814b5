import { ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { onS3 } from './s3-errors.ts';
import { plainEtag } from './s3-headers.ts';

const MAX_PAGE = 1000;

export interface Listed {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: Date;
  readonly etag: string;
}

interface Listing {
  readonly client: S3Client;
  readonly bucket: string;
  readonly prefix: string;
  readonly after?: string | undefined;
  readonly limit: number;
}

/** One page. The keys are sent percent-encoded, because XML cannot contain control characters. */
export async function listPage({ client, bucket, prefix, after, limit }: Listing): Promise<{ items: Listed[]; hasMore: boolean }> {
  const response = await onS3(
    client.send(
      new ListObjectsV2Command({
        Bucket: bucket,
        Prefix: prefix,
        MaxKeys: Math.min(limit, MAX_PAGE),
        EncodingType: 'url',
        ...(after === undefined || after === '' ? {} : { StartAfter: after }),
      }),
    ),
  );
  const decode = response.EncodingType === 'url' ? decodeKey : (key: string) => key;
  const items = (response.Contents ?? []).map(({ Key, Size, LastModified, ETag }) => ({
    key: decode(Key ?? ''),
    size: Size ?? 0,
    modifiedAt: LastModified ?? new Date(0),
    etag: plainEtag(ETag) ?? '',
  }));
  return { items, hasMore: response.IsTruncated === true };
}

/** All objects with a prefix, page after page. */
export async function* listAll(listing: Omit<Listing, 'limit'>): AsyncGenerator<Listed, void> {
  let { after } = listing;
  for (;;) {
    const { items, hasMore } = await listPage({ ...listing, after, limit: MAX_PAGE });
    yield* items;
    after = items.at(-1)?.key;
    if (!hasMore || after === undefined) return;
  }
}

/** Some services write a space as `+`, as forms do. A plus of the key itself is always encoded. */
const decodeKey = (key: string): string => decodeURIComponent(key.replaceAll('+', ' '));
