/** Columns as wide as their widest cell, two spaces apart. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((cell, column) => Math.max(cell.length, ...rows.map((row) => (row[column] ?? '').length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(head), ...rows.map(line)];
}

/** `name  value`, the values aligned. */
export function textFacts(facts: readonly (readonly [string, string | null | undefined])[]): string[] {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}
