import { padToWidth, textWidth } from './text-width.ts';
import { visibleLine } from './visible-text.ts';

/** Columns as wide as their widest cell, two spaces apart. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const shown = [head, ...rows].map((cells) => cells.map(visibleLine));
  const widths = head.map((_, column) => Math.max(...shown.map((cells) => textWidth(cells[column] ?? ''))));
  return shown.map((cells) =>
    cells
      .map((cell, column) => padToWidth(cell, widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** `name  value`, the values aligned. */
export function textFacts(facts: readonly (readonly [string, string | null | undefined])[]): string[] {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(0, ...known.map(([name]) => textWidth(name)));
  return known.map(([name, value]) => `${padToWidth(name, width)}  ${value}`);
}
