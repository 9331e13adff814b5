import type { Issue } from '../errors.ts';
import { RESERVED_NAMES } from '../reserved-names.ts';

/** One step of a JSON Patch (RFC 6902). */
export type PatchStep =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly path: string; readonly from: string };

export const MAX_PATCH_STEPS = 100;
const MAX_PATCH_BYTES = 65_536;
const MAX_POINTER = 1_000;
const MAX_DEPTH = 64;

const OPS: ReadonlySet<unknown> = new Set(['add', 'replace', 'test', 'remove', 'move', 'copy']);
const WITH_VALUE: ReadonlySet<unknown> = new Set(['add', 'replace', 'test']);
const WITH_SOURCE: ReadonlySet<unknown> = new Set(['move', 'copy']);

/** What is wrong with a patch that came from outside. An empty list: nothing. Only the first problem is reported. */
export function checkPatch(patch: unknown): Issue[] {
  if (!Array.isArray(patch) || patch.length === 0) return [wrong('patch', 'must be a list of one or more RFC 6902 operations')];
  if (patch.length > MAX_PATCH_STEPS) return [wrong('patch', `must have at most ${MAX_PATCH_STEPS} operations`)];
  if (JSON.stringify(patch).length > MAX_PATCH_BYTES) return [wrong('patch', `must be at most ${MAX_PATCH_BYTES} bytes of JSON`)];
  for (const [index, step] of patch.entries()) {
    const issue = checkStep(step, `patch[${index}]`);
    if (issue !== null) return [issue];
  }
  return [];
}

function checkStep(step: unknown, field: string): Issue | null {
  if (typeof step !== 'object' || step === null || Array.isArray(step)) return wrong(field, 'must be an object');
  const { op, path, from } = step as Record<string, unknown>;
  if (!OPS.has(op)) return wrong(`${field}.op`, 'must be add, remove, replace, move, copy or test');
  const badPath = checkPointer(path, `${field}.path`);
  if (badPath !== null) return badPath;
  if (WITH_VALUE.has(op) && !Object.hasOwn(step, 'value')) return wrong(`${field}.value`, `is required by ${String(op)}`);
  return WITH_SOURCE.has(op) ? checkPointer(from, `${field}.from`) : null;
}

function checkPointer(pointer: unknown, field: string): Issue | null {
  if (typeof pointer !== 'string' || (pointer !== '' && !pointer.startsWith('/')))
    return wrong(field, 'must be a JSON pointer, such as /customer/id');
  if (/~(?![01])/.test(pointer)) return wrong(field, 'contains a ~ that is not part of ~0 or ~1: write ~0 for the character itself');
  const names = pointer.split('/').map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (pointer.length > MAX_POINTER || names.length > MAX_DEPTH) return wrong(field, 'is too long');
  const reserved = names.find((name) => RESERVED_NAMES.has(name));
  return reserved === undefined ? null : wrong(field, `must not contain ${reserved}: JavaScript reserves that name`);
}

const wrong = (field: string, message: string): Issue => ({ field, code: 'INVALID_PATCH', message: `${field} ${message}` });
