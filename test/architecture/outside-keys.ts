/** Finds where a text that is not one of a few known words becomes the key of an object. Asks the compiler for the types. */
import { relative } from 'node:path';
import {
  isBinaryExpression,
  isElementAccessExpression,
  isForInStatement,
  isPropertyAccessExpression,
  type Node,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { API, type Checker, type Type, TypeFlags } from 'typescript/unstable/sync';

type OutsideKey = { file: string; line: number; text: string };

const ANY_TEXT = TypeFlags.String | TypeFlags.TemplateLiteral | TypeFlags.StringMapping | TypeFlags.Any;

/** Looks at the files of a project whose path from its folder begins with `under`. */
export function findOutsideKeys({ folder, config, under }: { folder: string; config: string; under: string }) {
  const api = new API({ cwd: folder });
  try {
    const [project] = api.updateSnapshot({ openProjects: [config] }).getProjects();
    if (project === undefined) throw new Error(`${config} is not a project`);
    const { program, checker } = project;
    const names = program.getSourceFileNames().filter((name) => relative(folder, name).startsWith(under));
    return names.flatMap((name) => {
      const file = program.getSourceFile(name);
      if (file === undefined) return [];
      const found: OutsideKey[] = [];
      const visit = (node: Node): void => {
        if (isOutsideKey(node, checker)) {
          const line = file.text.slice(0, node.getStart(file)).split('\n').length;
          const text = node.getText(file).split('\n')[0] as string;
          found.push({ file: relative(folder, name), line, text });
        }
        node.forEachChild(visit);
      };
      file.forEachChild(visit);
      return found;
    });
  } finally {
    api.close();
  }
}

/**
 * `x[name]`, `name in x`, `for (… in x)` and `Object.assign`, which writes `__proto__` through its setter. Literals with
 * computed names, spreads and `Object.fromEntries` define members and call no setter.
 */
function isOutsideKey(node: Node, checker: Checker): boolean {
  if (isForInStatement(node)) return true;
  if (isElementAccessExpression(node)) return isAnyText(node.argumentExpression, checker);
  if (isBinaryExpression(node) && node.operatorToken.kind === SyntaxKind.InKeyword) return isAnyText(node.left, checker);
  return isPropertyAccessExpression(node) && node.getText() === 'Object.assign';
}

/** Of the type `string`, or of a type parameter or a cast that hides it. */
function isAnyText(key: Node, checker: Checker): boolean {
  const inner = key.kind === SyntaxKind.AsExpression ? (key as Node & { expression: Node }).expression : key;
  const type = checker.getTypeAtLocation(inner);
  return type !== undefined && holdsText(type, checker);
}

function holdsText(type: Type, checker: Checker): boolean {
  if ((type.flags & ANY_TEXT) !== 0) return true;
  if (type.isUnionType()) return type.getTypes().some((each) => holdsText(each, checker));
  if ((type.flags & TypeFlags.TypeParameter) === 0) return false;
  const constraint = checker.getBaseConstraintOfType(type);
  return constraint !== undefined && constraint !== type && holdsText(constraint, checker);
}
