import { applyPatch } from 'rfc6902';
import type { PatchStep } from '../../core/governance/payload-patch.ts';

/** How a dead job gets its new payload. */
export type Correction =
  | { readonly kind: 'payload'; readonly payload: unknown }
  | { readonly kind: 'patch'; readonly patch: readonly PatchStep[] };

export type Corrected = { readonly ok: true; readonly payload: unknown } | { readonly ok: false; readonly message: string };

/** The payload of the new job. A patch that does not fit the old payload is a message and changes nothing. */
export function correctPayload(old: { payload: string | null; isBytes: boolean }, correction: Correction, maxBytes: number): Corrected {
  if (correction.kind === 'payload') return { ok: true, payload: correction.payload };
  if (old.isBytes) return { ok: false, message: 'The payload is bytes, which a patch cannot change. Send the whole payload.' };
  const holder = { payload: JSON.parse(old.payload ?? 'null') as unknown };
  for (const [index, step] of correction.patch.entries()) {
    // A copy of the step: the patch must not share values with the payloads of other jobs.
    const inHolder = JSON.parse(JSON.stringify(step)) as PatchStep & { from?: string };
    const target = { ...inHolder, path: `/payload${step.path}`, ...('from' in step ? { from: `/payload${step.from}` } : {}) };
    const [error] = applyPatch(holder, [target as Parameters<typeof applyPatch>[1][number]]);
    if (error != null)
      return {
        ok: false,
        message: `Step ${index} of the patch (${step.op} ${step.path.slice(0, 100)}) does not fit the payload: ${sentence(error)}`,
      };
    // Copies of copies double the size with each step.
    if (step.op === 'copy' && JSON.stringify(holder.payload ?? null).length > 2 * maxBytes)
      return { ok: false, message: `The patch makes the payload larger than ${maxBytes} bytes.` };
  }
  if (isDeep(holder.payload, MAX_DEPTH)) return { ok: false, message: `The patch nests the payload deeper than ${MAX_DEPTH} levels.` };
  return { ok: true, payload: holder.payload };
}

/** As deep as a request may be. */
const MAX_DEPTH = 64;

const isDeep = (value: unknown, levels: number): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((member) => isDeep(member, levels - 1)));

const SENTENCES: ReadonlyMap<string, string> = new Map([
  ['MissingError', 'the path does not exist.'],
  ['TestError', 'the value is another one.'],
]);

const sentence = ({ name }: Error): string => SENTENCES.get(name) ?? 'the operation is not possible.';
