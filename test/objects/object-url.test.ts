import fc from 'fast-check';
import { expect, it } from 'vitest';
import { objectUrl, parseObjectUrl } from '../../src/objects/object-url.ts';

it('writes the address that the tools of S3 use', () => {
  const name = { bucket: 'fetchbox', key: 'manifests/gallery/1/metadata.json' };
  expect(objectUrl(name)).toBe('s3://fetchbox/manifests/gallery/1/metadata.json');
  expect(parseObjectUrl('s3://fetchbox/manifests/gallery/1/metadata.json')).toEqual(name);
});

it('returns every key as it was', () => {
  const key = fc.oneof(
    fc.constantFrom('/', '//a', '../x', 's3://a/b', '%2F', '?#', 'a\nb', '\0'),
    fc.string({ unit: 'binary', minLength: 1 }),
  );
  fc.assert(
    fc.property(key, (key) => {
      expect(parseObjectUrl(objectUrl({ bucket: 'a-bucket', key }))).toEqual({ bucket: 'a-bucket', key });
    }),
  );
});

it.each([
  '',
  's3://',
  's3://bucket',
  's3://bucket/',
  's3:///key',
  'http://bucket/key',
  'S3://bucket/key',
  's3://Bucket/key',
  's3://../key',
])('refuses %j', (url) => {
  expect(() => parseObjectUrl(url)).toThrow(expect.objectContaining({ code: 'INVALID_NAME' }));
});
