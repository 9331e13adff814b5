import { nearestName } from '../core/nearest-name.ts';
import { OTHER_VARIABLES, SECTIONS_NOT_YET } from './reserved-names.ts';
import { SECTIONS, type Section, settingsOf } from './settings.ts';

/** What a variable of the environment is to us, judged by its name. */
export type VariableVerdict =
  | { readonly kind: 'fine' }
  /** It is of a section, and the section has no such key. */
  | { readonly kind: 'key'; readonly section: Section; readonly key: string }
  | { readonly kind: 'wrong'; readonly sentence: string }
  /** It begins as ours do, and resembles none. Another program may well have named it. */
  | { readonly kind: 'strange'; readonly sentence: string };

const PREFIX = 'MILLRACE_';
const FINE = { kind: 'fine' } as const;

const SETTING_VARIABLES = SECTIONS.flatMap((section) =>
  Object.keys(settingsOf(section)).map((key) => ({ section, name: `${section}_${key}`.toUpperCase() })),
);
/** Those of one word, without the prefix that all have. */
const SHORT = [
  ...OTHER_VARIABLES,
  ...SECTIONS.flatMap((section) => Object.values(settingsOf(section)).flatMap(({ variables = [] }) => variables)),
].flatMap((variable) => (variable.startsWith(PREFIX) ? [variable.slice(PREFIX.length)] : []));
const OURS = new Set([...SETTING_VARIABLES.map(({ name }) => name), ...SHORT].map((name) => `${PREFIX}${name}`));

export function judgeVariable(variable: string): VariableVerdict {
  if (!variable.startsWith(PREFIX) || OURS.has(variable)) return FINE;
  const isOf = (section: string): boolean => variable.startsWith(`${PREFIX}${section.toUpperCase()}_`);
  const section = SECTIONS.find(isOf);
  if (section !== undefined) {
    return { kind: 'key', section, key: variable.slice(`${PREFIX}${section}_`.length).toLowerCase() };
  }
  const toCome = SECTIONS_NOT_YET.find(isOf);
  if (toCome !== undefined) {
    return { kind: 'wrong', sentence: `${variable} is of [${toCome}], which is not in use in this version: remove it` };
  }
  if (isOf('queues'))
    return { kind: 'wrong', sentence: `${variable} cannot be: queues are configured in a file, as [queues."name"]` };
  const meant = nearestOf(variable.slice(PREFIX.length));
  if (meant !== null) return { kind: 'wrong', sentence: `${variable} is no setting (did you mean ${PREFIX}${meant}?)` };
  return { kind: 'strange', sentence: `${variable} is no setting of this version and has no effect.` };
}

/** Whoever meant a setting has at least the section nearly right; everything else may be of another program. */
function nearestOf(written: string): string | null {
  const [first = '', second] = written.split('_');
  if (second === undefined) return nearestName(written, SHORT);
  const near = SETTING_VARIABLES.filter(({ section }) => nearestName(first, [section]) !== null);
  return nearestName(
    written,
    near.map(({ name }) => name),
  );
}
