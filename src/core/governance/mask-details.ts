import { dictionary } from '../dictionary.ts';
import { maskSecrets } from '../mask-secrets.ts';
import { isSecretName, MASKED } from '../secret-names.ts';

const MOST_DEPTH = 20;

/** A copy of details in which members with secret names, and text that looks like a secret, are masked. */
export function maskDetails(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return maskSecrets(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MOST_DEPTH) return '[too deep]';
  if ('toJSON' in value && typeof value.toJSON === 'function') return maskDetails(value.toJSON(), depth + 1);
  if (Array.isArray(value)) return value.map((item) => maskDetails(item, depth + 1));
  const members = Object.entries(value);
  return dictionary<unknown>(members.map(([name, member]) => [name, isSecretName(name) ? MASKED : maskDetails(member, depth + 1)]));
}
