import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatTimestamp, parseTimestamp } from '../../src/core/timestamp.ts';

describe('parseTimestamp', () => {
  it.each([
    ['2024-01-15T10:30:00Z', '2024-01-15T10:30:00.000Z'],
    ['2024-01-15T10:30:00.123456Z', '2024-01-15T10:30:00.123Z'],
    ['2024-01-15T10:30:00.5Z', '2024-01-15T10:30:00.500Z'],
    ['2024-01-15T10:30:00+02:00', '2024-01-15T08:30:00.000Z'],
    ['2024-01-15T23:30:00-05:30', '2024-01-16T05:00:00.000Z'],
    ['2024-05-01T10:00Z', '2024-05-01T10:00:00.000Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
  ])('reads %s [GA-6.01]', (input, utc) => {
    const parsed = parseTimestamp(input);
    expect(parsed.ok && formatTimestamp(parsed.date)).toBe(utc);
  });

  it.each([
    '2024-01-15T10:30:00',
    '2024-01-15',
    '2023-02-29T00:00:00Z',
    '2024-02-30T00:00:00Z',
    '2024-13-01T00:00:00Z',
    '2024-01-15T24:00:00Z',
    '2024-01-15T10:60:00Z',
    '2024-01-15T10:30:00+25:00',
    'tomorrow',
    '',
    '1705314600',
    ' 2024-01-15T10:30:00Z',
    '2024-01-15T10:30:00Z ',
    '2024-01-15T10:30:00Z\n',
    '\u00a02024-01-15T10:30:00Z',
  ])('refuses %s with an example', (input) => {
    expect(parseTimestamp(input)).toEqual({ ok: false, message: expect.stringContaining('2024-01-15T10:30:00Z') });
  });

  it('refuses an invalid Date, a year beyond four digits, and other kinds', () => {
    expect(parseTimestamp(new Date(Number.NaN)).ok).toBe(false);
    expect(parseTimestamp(new Date('+010000-01-01T00:00:00Z')).ok).toBe(false);
    expect(parseTimestamp(1_705_314_600 as never).ok).toBe(false);
  });
});

describe('formatTimestamp', () => {
  it('prints UTC with milliseconds and is read back as the same moment [GA-6.01]', () => {
    const moments = fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
    fc.assert(
      fc.property(moments, (date) => {
        const text = formatTimestamp(date);
        expect(text).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
        expect(parseTimestamp(text)).toEqual({ ok: true, date });
        expect(parseTimestamp(date)).toEqual({ ok: true, date });
      }),
    );
  });
});
