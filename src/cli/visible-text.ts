/**
 * Characters that a terminal or a viewer of logs obeys instead of showing them: control characters, line separators, and those that
 * change the direction of text. A value from outside could use them to hide text or to forge a line.
 */
const OBEYED = String.raw`\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069`;
const IN_TEXT = new RegExp(String.raw`[\u0000-\u001f${OBEYED}]`, 'g');
const IN_JSON = new RegExp(`[${OBEYED}]`, 'g');

const SHORT: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

const codeOf = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** One line of text in which every character is visible. */
export const visibleLine = (text: string): string => text.replaceAll(IN_TEXT, (character) => SHORT.get(character) ?? codeOf(character));

/** The same for JSON, which has already escaped the other control characters. */
export const visibleJson = (json: string): string => json.replaceAll(IN_JSON, codeOf);

/** Text of several lines, such as a stack trace. The lines after the first are indented, so that none looks like another message. */
export function visibleBlock(text: string): string[] {
  const [first = '', ...more] = text.split(/\r?\n/);
  return [visibleLine(first), ...more.filter((line) => line.trim() !== '').map((line) => `    ${visibleLine(line.trim())}`)];
}
