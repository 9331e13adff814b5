import { describe, expect, it } from 'vitest';
import { textTable } from '../../src/cli/text-table.ts';
import { cellOf, cutToWidth, textWidth } from '../../src/cli/text-width.ts';

describe('the width of text on a terminal', () => {
  it.each([
    ['', 0],
    ['mail.send', 9],
    ['é', 1],
    ['e\u0301', 1],
    ['請求書', 6],
    ['한국어', 6],
    ['ｆｕｌｌ', 8],
    ['ﾊﾝｶｸ', 4],
    ['🚀', 2],
    ['𠮷', 2],
    ['█…', 2],
  ])('of %j is %i', (text, width) => {
    expect(textWidth(text)).toBe(width);
  });

  it('is cut between characters, never inside of one', () => {
    expect(cutToWidth('請求書', 6)).toBe('請求書');
    expect(cutToWidth('請求書', 5)).toBe('請求…');
    expect(cutToWidth('請求書', 4)).toBe('請…');
    expect(cutToWidth('🚀🚀', 3)).toBe('🚀…');
    expect(cutToWidth('e\u0301e\u0301e\u0301', 2)).toBe('e\u0301…');
    expect(cutToWidth('👨‍👩‍👧👨‍👩‍👧', 7)).toBe('👨‍👩‍👧…');
  });

  it('fills a cell, also with characters that are shown by their code', () => {
    expect(cellOf('a\u001bb', 10)).toBe('a\\u001bb  ');
    expect(cellOf('a\u001b\u001b', 10)).toBe('a\\u001b\\u…');
    expect(cellOf('請求', 6)).toBe('請求  ');
  });

  it('aligns the columns of tables', () => {
    expect(
      textTable(
        ['type', 'n'],
        [
          ['請求書', '1'],
          ['a\tb', '2'],
        ],
      ),
    ).toEqual(['type    n', '請求書  1', 'a\\tb    2']);
  });
});
