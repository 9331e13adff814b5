import { maskSecrets } from './mask-secrets.ts';
import { isSecretName, MASKED } from './secret-names.ts';

const MAX_SHOWN = 16_384;

/** A payload as people may see it: members with secret-sounding names, and text that looks like a secret, are masked. A large one is cut. */
export function maskPayload(payload: unknown): unknown {
  if (payload === undefined) return null;
  if (payload instanceof Uint8Array) return `[${payload.byteLength} bytes]`;
  const text = JSON.stringify(payload, (name, value: unknown) => {
    if (name !== '' && isSecretName(name)) return MASKED;
    return typeof value === 'string' ? maskSecrets(value) : value;
  });
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : (JSON.parse(text) as unknown);
}
