export type Graph = ReadonlyMap<string, readonly string[]>;

type Visit = { index: number; low: number; isOnStack: boolean };

/** Tarjan's strongly connected components, kept where they are cycles: two nodes or more, or a node that names itself. */
export function findCycles(graph: Graph): string[][] {
  const visits = new Map<string, Visit>();
  const stack: string[] = [];
  const cycles: string[][] = [];

  const visit = (node: string): Visit => {
    const own: Visit = { index: visits.size, low: visits.size, isOnStack: true };
    visits.set(node, own);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      const seen = visits.get(next);
      if (seen === undefined) own.low = Math.min(own.low, visit(next).low);
      else if (seen.isOnStack) own.low = Math.min(own.low, seen.index);
    }
    if (own.low === own.index) {
      const component = stack.splice(stack.indexOf(node));
      for (const member of component) visits.get(member)!.isOnStack = false;
      if (component.length > 1 || graph.get(node)?.includes(node)) cycles.push(component.sort());
    }
    return own;
  };

  for (const node of graph.keys()) if (!visits.has(node)) visit(node);
  return cycles;
}
