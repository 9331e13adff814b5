/** The known name that is most similar to the given one, or null when none is close. */
export function nearestName(given: string, known: Iterable<string>): string | null {
  const wanted = fold(given.slice(0, 64));
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(wanted, fold(name));
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** ` (did you mean x?)`, or an empty string. */
export function suggestion(given: string, known: Iterable<string>): string {
  const nearest = nearestName(given, known);
  return nearest === null ? '' : ` (did you mean ${nearest}?)`;
}

// Treats idempotency_key, idempotency-key and idempotencyKey as the same name.
function fold(name: string): string {
  return name.replace(/[_\-\s]/g, '').toLowerCase();
}

/** Damerau-Levenshtein: insertions, deletions, substitutions and swapped neighbours count as one each. */
function editDistance(left: string, right: string): number {
  let beforeThat: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const substitution = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1);
      const isSwap = row > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      const swap = isSwap ? beforeThat[column - 2]! + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(substitution, swap, previous[column]! + 1, current[column - 1]! + 1));
    }
    beforeThat = previous;
    previous = current;
  }
  return previous[right.length]!;
}
