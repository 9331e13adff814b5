import { maskSecrets } from '../core/mask-secrets.ts';
import { isSecretName, MASKED } from '../core/secret-names.ts';

/** Fields with these names are never logged: they contain what users sent, or describe a person. */
const DENIED =
  /^(?:payload|result|output|body|data|headers?|query|params|tags|callback_url|remote_address|ip(?:_address)?)$|e[-_]?mail|phone|first_?name|last_?name|full_?name|birth|street|postal|iban|credit_?card|social_?security|passport/i;

/** Words of our own, which need no look. */
const PLAIN = new Set('action current_state next_state scenario method level'.split(' '));
/** Nearly all ids are such. Callers choose the others: in a path, in a header or with a job. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const E_MAIL = /[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+/g;
/** Control characters and marks that change what a terminal or an editor shows. JSON escapes those below the space itself. */
const INVISIBLE = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const LONGEST = 2_000;
const DEEPEST = 4;

/** The fields of a log line without absent ones, denied ones and secrets. */
export const safeFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> => nestedFields(fields, 0);

function nestedFields(fields: Readonly<Record<string, unknown>>, depth: number): Record<string, unknown> {
  const safe: [string, unknown][] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null || DENIED.test(name)) continue;
    if (typeof value === 'string' && (PLAIN.has(name) || UUID.test(value))) safe.push([name, value]);
    else safe.push([name, isSecretName(name) && typeof value !== 'number' ? MASKED : safeValue(value, depth)]);
  }
  return Object.fromEntries(safe);
}

/** A text as a log line may contain it. */
export const safeText = (text: string): string =>
  maskSecrets(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text)
    .replace(E_MAIL, MASKED)
    .replace(INVISIBLE, escaped);

function safeValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return safeText(value);
  if (value instanceof Date) return value;
  if (value instanceof Error) return safeText(value.message);
  if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? String(value) : value;
  if (depth >= DEEPEST) return MASKED;
  if (Array.isArray(value)) return value.slice(0, 100).map((each) => safeValue(each, depth + 1));
  return nestedFields(value as Record<string, unknown>, depth + 1);
}

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
