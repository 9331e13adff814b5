/** Text that PostgreSQL can store (no NUL, no half surrogate pair), cut at a whole character within so many UTF-8 bytes. */
export function boundText(text: string, maxBytes: number): string {
  const storable = text.toWellFormed().replaceAll('\0', '\uFFFD');
  if (storable.length * 3 <= maxBytes) return storable;
  const bytes = Buffer.from(storable);
  if (bytes.length <= maxBytes) return storable;
  let end = maxBytes;
  // A byte of the form 10xxxxxx continues a character: step back to where the character began.
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
