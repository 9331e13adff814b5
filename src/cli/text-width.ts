import { visibleLine } from './visible-text.ts';

/** Characters that take two columns: those of East Asia, and emoji. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d37f}\u{1f200}-\u{1f2ff}\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
/** Characters that take none: they change the character before them. */
const JOINED = /[\p{Mn}\p{Me}\u200b-\u200d\u2060-\u2064\ufeff\u{e0000}-\u{e007f}]/u;
/** Asks for the picture of the character before it, which takes two columns. */
const AS_EMOJI = '\ufe0f';

const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/**
 * How many columns of a terminal the text takes. Terminals differ for emoji that are joined to one picture: some show each part. This
 * returns the larger number, so that no line is too long on any of them.
 */
export function textWidth(text: string): number {
  let width = 0;
  for (const each of text) {
    if (each === AS_EMOJI) width += 1;
    else if (!JOINED.test(each)) width += WIDE.test(each) ? 2 : 1;
  }
  return width;
}

/** The text, or its beginning and an ellipsis if it takes more columns. */
export function cutToWidth(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  let [shown, width] = ['', 0];
  for (const { segment } of characters.segment(text)) {
    width += textWidth(segment);
    if (width > columns - 1) break;
    shown += segment;
  }
  return `${shown}…`;
}

/** The text and spaces that fill its column. */
export const padToWidth = (text: string, columns: number): string => text + ' '.repeat(Math.max(0, columns - textWidth(text)));

/** A value from outside as a cell of exactly so many columns. It is made visible first, because `\u001b` takes more room than ESC. */
export const cellOf = (value: string, columns: number): string => padToWidth(cutToWidth(visibleLine(value), columns), columns);
