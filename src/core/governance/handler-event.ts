import { canonicalJson } from '../canonical-json.ts';
import { invalidRequest } from '../errors.ts';
import { maskDetails } from './mask-details.ts';

/** What the trail itself writes. A handler must not be able to imitate it. */
const OWN_NAMESPACES: ReadonlySet<string> = new Set([
  'job',
  'queue',
  'type',
  'key',
  'org',
  'project',
  'schedule',
  'webhook',
  'ingest',
  'host',
  'proxy',
  'deadletter',
  'operation',
  'alert',
  'artifact',
  'maintenance',
  'audit',
]);

const NAME = /^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+$/;
const LONGEST_NAME = 100;
const MOST_BYTES = 16_384;

/** Checks an event that a handler appends. Returns its details as canonical JSON, with secrets masked. */
export function readHandlerEvent(event: unknown, details: unknown = {}): { readonly event: string; readonly details: string } {
  if (typeof event !== 'string' || event.length > LONGEST_NAME || !NAME.test(event))
    throw invalidRequest({
      field: 'event',
      code: 'INVALID_VALUE',
      message: `event must be a name such as invoice.enriched: lower-case words with a dot between them, at most ${LONGEST_NAME} characters`,
    });
  const namespace = event.slice(0, event.indexOf('.'));
  if (OWN_NAMESPACES.has(namespace))
    throw invalidRequest({
      field: 'event',
      code: 'RESERVED_NAME',
      message: `events that begin with ${namespace}. are written by Millrace itself: choose another first word`,
    });
  if (typeof details !== 'object' || details === null || Array.isArray(details))
    throw invalidRequest({ field: 'details', code: 'INVALID_TYPE', message: 'details must be an object' });
  const text = canonicalJson(maskDetails(details));
  if (Buffer.byteLength(text) > MOST_BYTES)
    throw invalidRequest({ field: 'details', code: 'TOO_LARGE', message: `details must have at most ${MOST_BYTES} bytes as JSON` });
  return { event, details: text };
}
